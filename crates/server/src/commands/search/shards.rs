//! FT.PROFILE of a cluster: the results of all nodes with the profile of each, in the shape of RediSearch's
//! coordinator.
//!
//! Behind the results come, in RESP2, `*n +Shard #1`, the lists of that profile, and so on, at last
//! `+Coordinator` with a list of the asking node's times; in RESP3 a map `shards` of the same names to maps.

use std::time::{Duration, Instant};

use martlet_base::clock::monotonic;
use martlet_client::resp::{self, Reply as Decoded};
use martlet_indexes::Run;
use martlet_protocol::reply::Reply;
use martlet_search::merging::Part;

use super::find;
use crate::commands::Call;
use crate::search::nodes::{self, Nodes, PartRequest};
use crate::search::parts;

/// A node's part of FT.PROFILE, for the node that a client has asked: an [`Answer`].
pub(super) const PART: &str = "_ft.profile";

/// What a node sends: its part of the results, and its profile for the client.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    part: Part,
    /// How many replies the profile is.
    items: usize,
    profile: Vec<u8>,
}

impl Answer {
    pub(super) fn encode(part: &[u8], items: usize, profile: &[u8]) -> Vec<u8> {
        let mut answer = Reply::new(Vec::new(), false);
        answer.array(3);
        answer.bulk(part);
        answer.count(items);
        answer.bulk(profile);
        answer.into_bytes()
    }

    /// Decodes an answer; `None` if the bytes are malformed.
    fn decode(bytes: &[u8]) -> Option<Answer> {
        let (Decoded::Array(fields), length) = resp::decode(bytes).ok()?? else { return None };
        let [Decoded::Bulk(part), Decoded::Int(items), Decoded::Bulk(profile)] =
            <[_; 3]>::try_from(fields).ok()?
        else {
            return None;
        };
        let items = usize::try_from(items).ok()?;
        // The client gets the profile as it is: whole replies, and as many as it is told.
        let mut rest = profile.as_slice();
        for _ in 0..items {
            let (_, length) = resp::decode(rest).ok()??;
            rest = rest.get(length..)?;
        }
        let is_whole = length == bytes.len() && rest.is_empty();
        is_whole.then_some(Answer { part: parts::decode(&part)?, items, profile })
    }
}

/// Asks all nodes for their parts of a search, whose query is the argument `query`, and answers the client.
pub(super) fn ask(call: &mut Call<'_>, nodes: Nodes, run: &Run, limited: bool, query: usize) {
    let (began, asked) = (monotonic(), find::AskedSearch::new(call, run));
    let own = [nodes::protocol(call), &asked.rows_of_part(), if limited { "1" } else { "0" }];
    let words = own.into_iter().map(str::as_bytes).chain([call.arg(1)]).chain(call.args.iter().skip(query));
    let request = PartRequest {
        command: PART,
        words: words.map(<[u8]>::to_vec).collect(),
        timeout_ms: asked.request.query.timeout_ms,
    };
    let shows_clock = call.worker.config().search.print_profile_clock;
    nodes.answer_parts(call, request, Answer::decode, move |answers, reply| {
        let merging = monotonic();
        let (mut parts, mut profiles) = (Vec::new(), Vec::new());
        for answer in answers {
            parts.push(answer.map(|answer| {
                profiles.push((answer.items, answer.profile));
                answer.part
            }));
        }
        let whole = asked.merge(parts);
        let shards = Shards { profiles, began, merging, shows_clock };
        if reply.is_resp3() {
            asked.write_with(&whole, reply, |reply| shards.write_map(reply));
        } else {
            reply.array(2);
            asked.write(&whole, reply);
            shards.write_list(reply);
        }
    });
}

/// The profiles of all nodes.
struct Shards {
    profiles: Vec<(usize, Vec<u8>)>,
    began: Instant,
    /// When all answers were there.
    merging: Instant,
    shows_clock: bool,
}

impl Shards {
    fn write_map(&self, reply: &mut Reply) {
        reply.simple("shards");
        reply.map(self.profiles.len() + 1);
        self.write_profiles(reply);
        reply.simple("Coordinator");
        reply.map(self.times().len());
        self.write_times(reply);
    }

    fn write_list(&self, reply: &mut Reply) {
        let lists: usize = self.profiles.iter().map(|(items, _)| 1 + items).sum();
        reply.array(lists + 2);
        self.write_profiles(reply);
        reply.simple("Coordinator");
        reply.array(2 * self.times().len());
        self.write_times(reply);
    }

    fn write_profiles(&self, reply: &mut Reply) {
        for (number, (_, profile)) in (1..).zip(&self.profiles) {
            reply.simple(&format!("Shard #{number}"));
            reply.raw().extend_from_slice(profile);
        }
    }

    /// The times of the asking node, in RediSearch's spelling; none without a clock.
    fn times(&self) -> Vec<(&'static str, Duration)> {
        let times = [
            ("Total Coordinator time", self.began.elapsed()),
            ("Post Proccessing time", self.merging.elapsed()),
        ];
        if self.shows_clock { times.into() } else { Vec::new() }
    }

    fn write_times(&self, reply: &mut Reply) {
        for (name, time) in self.times() {
            reply.simple(name);
            reply.double(time.as_secs_f64() * 1000.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    #[test]
    fn answers_arrive_as_they_were_and_nothing_else_is_read() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let part = b"*3\r\n:7\r\n:1\r\n*0\r\n";
        let profile = b"*1\r\n+Warning\r\n%1\r\n+Type\r\n,1.5\r\n";
        let bytes = Answer::encode(part, 2, profile);
        let answer = Answer::decode(&bytes).unwrap();
        assert_eq!((answer.part.total, answer.items, &answer.profile[..]), (7, 2, &profile[..]));
        // The profile is as many replies as it says.
        assert_eq!(Answer::decode(&Answer::encode(part, 1, profile)), None);
        assert_eq!(Answer::decode(&Answer::encode(part, 3, profile)), None);
        assert_eq!(Answer::decode(&Answer::encode(b"*3\r\n", 2, profile)), None);
        assert_eq!(Answer::decode(&[&bytes[..], b"+"].concat()), None);
        assert!((0..bytes.len()).all(|end| Answer::decode(&bytes[..end]).is_none()));
        for _ in 0..1000 {
            // Whatever the bytes are, reading them ends.
            let mut mutated = bytes.clone();
            let at = random.below(mutated.len() as u64) as usize;
            mutated[at] = random.next_u64() as u8;
            let _ = Answer::decode(&mutated);
        }
    }
}
