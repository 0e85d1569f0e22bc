//! DEBUG DIGEST and DIGEST-VALUE: a SHA-1 over keys and values that is the same as Redis', whatever the
//! encoding, so that suites can compare data sets.

use martlet_base::limits::SHARD_COUNT;
use martlet_base::number::{NumberBuffer, format_f64_shortest};
use martlet_command::{Flags, Outcome, command};
use martlet_keyspace::{Entry, Key};
use martlet_types::array::Array;
use martlet_types::element::{Element, IntBuffer};
use martlet_types::hash::{Hash, NO_EXPIRY};
use martlet_types::list::List;
use martlet_types::set::Set;
use martlet_types::stream::{Id, Stream};
use martlet_types::zset::ZSet;
use sha1::{Digest as _, Sha1};

use super::debug::FLAGS;
use super::{Call, ServerCommand, ServerHandler};

/// A digest under way.
#[derive(Clone, Copy, Default)]
struct Digest([u8; 20]);

impl Digest {
    /// Adds `bytes` in a way that does not depend on the order of additions.
    fn xor(&mut self, bytes: &[u8]) {
        self.xor_with(&Sha1::digest(bytes));
    }

    /// Adds `bytes` behind the earlier ones.
    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_element(&mut self, element: Element<'_>) {
        self.mix(element.as_bytes(&mut IntBuffer::new()));
    }

    /// Adds an element of a collection without order, made of parts that have one.
    fn xor_element(&mut self, fill: impl FnOnce(&mut Digest)) {
        let mut element = Digest::default();
        fill(&mut element);
        self.xor(&element.0);
    }

    fn xor_with(&mut self, other: &[u8]) {
        self.0.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    }

    fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds an entry's value and that it expires, if it does.
    fn value(&mut self, entry: &Entry<'_>) {
        self.mix(&(entry.kind() as u32).to_be_bytes());
        if let Some(text) = entry.str() {
            self.mix(text.bytes(&mut NumberBuffer::new()));
        } else if let Some(list) = entry.object::<List>() {
            list.iter().for_each(|element| self.mix_element(element));
        } else if let Some(set) = entry.object::<Set>() {
            set.iter().for_each(|member| self.xor(member.as_bytes(&mut IntBuffer::new())));
        } else if let Some(zset) = entry.object::<ZSet>() {
            for entry in zset.iter() {
                self.xor_element(|element| {
                    element.mix_element(entry.member);
                    element.mix(format_f64_shortest(entry.score, &mut NumberBuffer::new()));
                });
            }
        } else if let Some(hash) = entry.object::<Hash>() {
            for field in hash.iter() {
                self.xor_element(|element| {
                    element.mix_element(field.name);
                    element.mix_element(field.value);
                    if field.expire_at_ms != NO_EXPIRY {
                        element.xor(b"!!hexpire!!");
                    }
                });
            }
        } else if let Some(stream) = entry.object::<Stream>() {
            for entry in stream.log().range(Id::MIN, Id::MAX) {
                self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                for (name, value) in entry.fields {
                    self.mix_element(name);
                    self.mix_element(value);
                }
            }
        }
        if let Some(array) = entry.object::<Array>() {
            for (index, element) in array.iter() {
                self.mix(index.to_string().as_bytes());
                self.mix_element(element);
            }
        }
        if entry.expiry_ms().is_some() {
            self.xor(b"!!expire!!");
        }
    }
}

pub(super) static DIGEST: ServerCommand =
    command("debug|digest", 2, digest as ServerHandler).flags(FLAGS.with(Flags::EXCLUSIVE)).doc(
        martlet_command::Group::Server,
        "1.0.0",
        "O(N) for the size of the data",
        "Returns a digest of all keys and values.",
    );

fn digest(call: &mut Call<'_>) -> Outcome {
    let keys = &call.worker.keys;
    let mut all = Digest::default();
    for db in 0..call.worker.settings.databases {
        let tables = || (0..SHARD_COUNT).map(|shard| keys.shard(shard).keys.db(db));
        if tables().all(|table| table.is_empty()) {
            continue;
        }
        all.mix(&(db as u32).to_be_bytes());
        for entry in tables().flat_map(|table| table.iter()) {
            let mut one = Digest::default();
            one.mix(entry.key());
            one.value(&entry);
            all.xor(&one.0);
        }
    }
    call.reply.simple(&all.hex());
    Ok(())
}

pub(super) static DIGEST_VALUE: ServerCommand =
    command("debug|digest-value", -2, digest_value as ServerHandler).flags(FLAGS.with(Flags::EXCLUSIVE)).doc(
        martlet_command::Group::Server,
        "5.0.0",
        "O(N) for the size of the values",
        "Returns a digest of each of these keys' values.",
    );

fn digest_value(call: &mut Call<'_>) -> Outcome {
    call.reply.array(call.argc() - 2);
    for index in 2..call.argc() {
        let mut one = Digest::default();
        if let Some(entry) = call.worker.keys.get(&Key::new(call.arg(index))) {
            one.value(&entry);
        }
        call.reply.simple(&one.hex());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn a_string_has_valkeys_digest() {
        let mut digest = Digest::default();
        digest.mix(&0u32.to_be_bytes());
        digest.mix(b"hello");
        assert_eq!(digest.hex(), "36b23a1456b2dce2c3ed252c456761301dba8060");
    }
}
