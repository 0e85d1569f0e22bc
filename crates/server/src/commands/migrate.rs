//! MIGRATE's arguments; [`crate::migration`] carries it out.

use std::time::Duration;

use martlet_command::{Acl, Error, Flags, Group, KeyFlags, KeyPart, Outcome, Tip, command};
use martlet_keyspace::Key;
use martlet_protocol::request::Args;

use super::{Call, ServerCommand, ServerHandler};
use crate::migration::Request;
use crate::migration::exchange::Destination;

/// The family.
pub static COMMANDS: &[&ServerCommand] = &[&MIGRATE];

/// The meaning of a timeout of 0.
const DEFAULT_TIMEOUT_MS: i64 = 1000;

const KEY_FLAGS: KeyFlags = KeyFlags::RW.with(KeyFlags::ACCESS).with(KeyFlags::DELETE);

static MIGRATE: ServerCommand = command("migrate", -6, migrate as ServerHandler)
    .flags(Flags::WRITE.with(Flags::MOVES_KEYS))
    .keys(&[KeyPart::one(3, KEY_FLAGS), KeyPart::after("KEYS", -2, KEY_FLAGS.with(KeyFlags::INCOMPLETE))])
    .find_keys(find_keys)
    .secrets(credentials)
    .acl(Acl::KEYSPACE.with(Acl::DANGEROUS))
    .syntax(
        "host port:i key-selector(key:k0|empty-string:x=) destination-db:i timeout:i ?COPY^3.0.0 \
         ?REPLACE^3.0.0 ?authentication(auth/password=AUTH^4.0.7|auth2=AUTH2(username \
         password)^6.0.0) ?*keys:k1/key=KEYS^3.0.6",
    )
    .doc(
        Group::Generic,
        "2.6.0",
        "O(N) for the size of the values, here and at the other server",
        "Moves keys to another server.",
    )
    .history(&[
        ("3.0.0", "`COPY` and `REPLACE`."),
        ("3.0.6", "`KEYS`."),
        ("4.0.7", "`AUTH`."),
        ("6.0.0", "`AUTH2`."),
    ])
    .tips(&[Tip::NONDETERMINISTIC_OUTPUT]);

/// The arguments that an option takes.
fn operands(option: &[u8]) -> usize {
    match option {
        _ if option.eq_ignore_ascii_case(b"auth") => 1,
        _ if option.eq_ignore_ascii_case(b"auth2") => 2,
        _ => 0,
    }
}

/// Where the options are. Behind KEYS, which is one, are keys.
fn options<'a>(args: &'a Args<'_>) -> impl Iterator<Item = usize> + 'a {
    let option = |at: usize| (at < args.len()).then_some(at);
    std::iter::successors(option(6), move |&at| option(at + 1 + operands(args.at(at))))
}

fn is_keys(args: &Args<'_>, at: usize) -> bool {
    args.at(at).eq_ignore_ascii_case(b"keys")
}

/// The keys: those behind KEYS, or argument 3. An argument behind AUTH is never KEYS. As in Redis, an only
/// option is not KEYS.
fn find_keys(args: &Args<'_>, out: &mut Vec<usize>) -> bool {
    match options(args).find(|&at| args.len() > 7 && is_keys(args, at)) {
        Some(at) if args.at(3).is_empty() => out.extend(at + 1..args.len()),
        Some(_) => return false,
        None => out.push(3),
    }
    true
}

/// The arguments that name a user or a password, which logs must not show, in their order.
fn credentials(args: &Args<'_>) -> Vec<usize> {
    let before_keys = options(args).take_while(|&at| !is_keys(args, at));
    before_keys.flat_map(|at| at + 1..args.len().min(at + 1 + operands(args.at(at)))).collect()
}

fn parse(call: &Call<'_>) -> Result<Request, Error> {
    let (mut copy, mut replace) = (false, false);
    let mut credentials = Vec::new();
    let mut keys = vec![call.arg(3).to_vec()];
    let mut rest = call.rest(6);
    loop {
        if rest.word("copy") {
            copy = true;
        } else if rest.word("replace") {
            replace = true;
        } else if rest.option("auth", 1) {
            credentials = vec![rest.value()?.to_vec()];
        } else if rest.option("auth2", 2) {
            credentials = vec![rest.value()?.to_vec(), rest.value()?.to_vec()];
        } else if rest.word("keys") {
            if !call.arg(3).is_empty() {
                return Err(Error::Fixed(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            keys = rest.args().iter().map(<[u8]>::to_vec).collect();
            break;
        } else {
            break rest.finish()?;
        }
    }
    let timeout_ms = call.int(5)?;
    let db = call.int(4)?;
    let timeout_ms = if timeout_ms <= 0 { DEFAULT_TIMEOUT_MS } else { timeout_ms };
    let (host, port) = (call.arg(1).to_vec(), call.arg(2).to_vec());
    let timeout = Duration::from_millis(timeout_ms as u64);
    let tls = call.worker.shared.tls.bus().map(|bus| bus.client().clone());
    let destination = Destination { host, port, db, timeout, credentials, tls };
    Ok(Request { destination, copy, replace, keys })
}

fn migrate(call: &mut Call<'_>) -> Outcome {
    let mut request = parse(call)?;
    request.keys.retain(|key| call.worker.keys.lookup(&Key::new(key)).is_some());
    if request.keys.is_empty() {
        call.reply.simple("NOKEY");
    } else if call.deny_blocking {
        return Err(Error::Fixed("ERR MIGRATE is not allowed in a transaction or script"));
    } else {
        call.worker.begin_migration(call.connection, call.entry, &call.args, request);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use martlet_base::random::Random;
    use martlet_client::resp::encode_request;
    use martlet_command::testing::generate::{Generated, Generator};
    use martlet_net::Sink;
    use martlet_protocol::request::OwnedArgs;

    use super::*;
    use crate::config::{Config, ConfigStore};
    use crate::runtime::Shared;
    use crate::runtime::Worker;

    /// Syntax, handler and key finder are three forms of one grammar.
    #[test]
    fn three_forms_of_its_grammar_agree() {
        let seed = Random::from_entropy().below(u64::MAX);
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
        let shared = Shared::new(ConfigStore::new(Config::default()), registry, 1, None).unwrap();
        let mut worker = Worker::new(Box::leak(Box::new(shared)), 0, &crate::wiring::HOOKS);
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let client = worker.adopt_for_test(ours.into());
        let spec = &MIGRATE.spec;
        for _ in 0..3000 {
            let Generated { mut words, mut keys } = Generator::generate(spec, &mut random);
            let names_keys = keys.iter().any(|key| *key > 3);
            // The syntax cannot say that KEYS follow an empty key only, which is a key without them.
            if words[3].is_empty() || names_keys {
                words[3].clear();
                keys.retain(|key| *key > 3);
                keys.extend((!names_keys).then_some(3));
            }
            let owned = OwnedArgs::from_slices(words.iter().map(Vec::as_slice));
            let (text, mut found) = (format!("{:?}, seed {seed}", owned.view()), Vec::new());
            assert!(spec.key_indexes(&owned.view(), &mut found), "{text}");
            assert_eq!(found, keys, "{text}");
            let mut bytes = Vec::new();
            encode_request(&words, &mut bytes);
            worker.received(client, &bytes);
            assert_eq!(worker.output_for_test(client), "+NOKEY\r\n", "{text}");
        }
    }
}
