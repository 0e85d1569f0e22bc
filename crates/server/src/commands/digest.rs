//! DEBUG DIGEST and DIGEST-VALUE: a SHA-1 over keys and values that is the same as Redis', whatever the
//! encoding, so that suites can compare data sets.

use martlet_base::limits::SHARD_COUNT;
use martlet_command::{Flags, Outcome, command};
use martlet_keyspace::Key;
use martlet_values::Digest;

use super::debug_flags::FLAGS;
use super::{Call, ServerCommand, ServerHandler};

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
            martlet_values::digest(&entry, &mut one);
            all.xor_digest(&one);
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
            martlet_values::digest(&entry, &mut one);
        }
        call.reply.simple(&one.hex());
    }
    Ok(())
}
