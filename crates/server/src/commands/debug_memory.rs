//! DEBUG's views of memory: what a string, a table or the structures take. Tools that size a data set by
//! Redis' names for them read these.

use martlet_command::{Error, Flags, Group, KeyFlags, KeyPart, Outcome, command};
use martlet_keyspace::{Entry, Key, Value};

use super::debug_flags::FLAGS;
use super::{Call, ServerCommand, ServerHandler};

/// The key that is looked at.
const KEY: &[KeyPart] = &[KeyPart::one(2, KeyFlags::RO)];

fn entry<'a>(call: &'a mut Call<'_>) -> Result<Entry<'a>, Error> {
    call.worker.keys.get(&Key::new(call.args.at(2))).ok_or(Error::NoSuchKey)
}

/// One allocation has a key and its value.
pub(super) static SDSLEN: ServerCommand =
    command("debug|sdslen", 3, sdslen as ServerHandler).flags(FLAGS.with(Flags::READONLY)).keys(KEY).doc(
        Group::Server,
        "3.0.0",
        "O(1)",
        "Returns the bytes of a key and of its string, and of the allocation that has both.",
    );

fn sdslen(call: &mut Call<'_>) -> Outcome {
    let key_bytes = call.arg(2).len();
    let entry = entry(call)?;
    if !matches!(entry.encoding(), "raw" | "embstr") {
        return Err(Error::Fixed("ERR Not an sds encoded string."));
    }
    let (allocated, value_bytes) = (entry.heap_bytes(), entry.size());
    call.reply.simple(&format!(
        "key_sds_len:{key_bytes}, key_sds_avail:0, key_zmalloc: {allocated}, val_sds_len:{value_bytes}, \
         val_sds_avail:0, val_zmalloc: 0"
    ));
    Ok(())
}

pub(super) static STRUCTSIZE: ServerCommand = command("debug|structsize", 2, structsize as ServerHandler)
    .flags(FLAGS)
    .doc(Group::Server, "3.2.0", "O(1)", "Returns the sizes of structures, under the names that Redis has.");

fn structsize(call: &mut Call<'_>) -> Outcome {
    // Strings have no header of their own, whichever their length.
    call.reply.bulk(
        format!(
            "bits:{} robj:{} dictentry:{} sdshdr5:0 sdshdr8:0 sdshdr16:0 sdshdr32:0 sdshdr64:0 ",
            usize::BITS,
            size_of::<Value>(),
            size_of::<usize>(),
        )
        .as_bytes(),
    );
    Ok(())
}

/// Tables grow by a segment at a time.
pub(super) static DICT_RESIZING: ServerCommand =
    command("debug|dict-resizing", 3, dict_resizing as ServerHandler).flags(FLAGS).doc(
        Group::Server,
        "7.2.0",
        "O(1)",
        "Accepted; tables are not resized as a whole, so that nothing is to be held up.",
    );

fn dict_resizing(call: &mut Call<'_>) -> Outcome {
    call.reply.ok();
    Ok(())
}

pub(super) static HTSTATS_KEY: ServerCommand = command("debug|htstats-key", -3, htstats_key as ServerHandler)
    .flags(FLAGS.with(Flags::READONLY))
    .keys(KEY)
    .doc(Group::Server, "4.0.0", "O(1)", "Shows the size of the table that a collection is kept in.");

fn htstats_key(call: &mut Call<'_>) -> Outcome {
    let entry = entry(call)?;
    if !matches!(entry.encoding(), "hashtable" | "hashtableex" | "skiplist") {
        let error = "ERR The value stored at the specified key is not represented using an hash table";
        return Err(Error::Fixed(error));
    }
    let (elements, bytes) = (entry.size(), entry.heap_bytes());
    call.reply.verbatim(
        "txt",
        format!(
            "Hash table 0 stats (main hash table):\n number of elements: {elements}\n table bytes: {bytes}\n"
        )
        .as_bytes(),
    );
    Ok(())
}

pub(super) static LEAK: ServerCommand = command("debug|leak", 3, leak as ServerHandler).flags(FLAGS).doc(
    Group::Server,
    "5.0.0",
    "O(1)",
    "Allocates a text that is never freed.",
);

fn leak(call: &mut Call<'_>) -> Outcome {
    Box::leak(call.arg(2).to_vec().into_boxed_slice());
    call.reply.ok();
    Ok(())
}
