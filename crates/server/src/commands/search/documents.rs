//! FT.GET, FT.MGET and FT.DEL: documents by their keys, as RediSearch 1 had them; and FT.SYNADD, which is no
//! more.

use std::sync::Arc;

use martlet_command::{Acl, Error, Flags, KeyFlags, KeyPart, Outcome, command};
use martlet_engine::EventClass;
use martlet_indexes::KeyIndex;
use martlet_keyspace::Key;
use martlet_protocol::reply::Reply;
use martlet_types::element::Element;
use martlet_types::hash::Hash;

use super::{DENIED, GROUP, may_use, readable_index};
use crate::commands::{Call, ServerCommand, ServerHandler};

/// The commands.
pub static COMMANDS: &[&ServerCommand] = &[&GET, &MGET, &DEL, &SYNADD];

const READ: KeyFlags = KeyFlags::RO.with(KeyFlags::ACCESS);

static GET: ServerCommand = command("ft.get", 3, get as ServerHandler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::one(2, READ)])
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index key:k0")
    .doc(GROUP, "1.0.0", "O(1)", "Returns the fields of a document.");

static MGET: ServerCommand = command("ft.mget", -3, mget as ServerHandler)
    .flags(Flags::READONLY)
    .keys(&[KeyPart::range(2, -1, 1, READ)])
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("index *key:k0")
    .doc(GROUP, "1.0.0", "O(N) where N is the number of keys", "Returns the fields of documents.");

static DEL: ServerCommand = command("ft.del", -3, del as ServerHandler)
    .flags(Flags::WRITE)
    .keys(&[KeyPart::one(2, KeyFlags::RW.with(KeyFlags::DELETE))])
    .acl(Acl::WRITE.with(Acl::SEARCH))
    .syntax("index key:k0 ?DD")
    .doc(GROUP, "1.0.0", "O(1)", "Deletes a document, and its key.");

static SYNADD: ServerCommand = command("ft.synadd", -1, synadd as ServerHandler)
    .flags(Flags::READONLY)
    .acl(Acl::READ.with(Acl::SEARCH))
    .syntax("?*argument")
    .doc(GROUP, "1.0.0", "O(1)", "Is no more: FT.SYNUPDATE takes its place.");

/// The index by its name, if the client may use it; with `writes` also to change its keys.
fn index_of(call: &mut Call<'_>, writes: bool) -> Result<Arc<KeyIndex>, Error> {
    let index = readable_index(call, call.arg(1))?.ok_or(Error::Fixed("Unknown Index name"))?;
    if writes && !may_use(call, &index, true) { Err(DENIED) } else { Ok(index) }
}

fn get(call: &mut Call<'_>) -> Outcome {
    let index = index_of(call, false)?;
    write_document(call, &index, call.arg(2));
    Ok(())
}

fn mget(call: &mut Call<'_>) -> Outcome {
    let index = index_of(call, false)?;
    let names: Vec<&[u8]> = call.args.iter().skip(2).collect();
    call.reply.array(names.len());
    names.into_iter().for_each(|name| write_document(call, &index, name));
    Ok(())
}

/// The fields of a hash that the index has, none of another document; null if the index does not have the
/// key.
fn write_document(call: &mut Call<'_>, index: &KeyIndex, name: &[u8]) {
    let key = Key::new(name);
    let keys = &mut call.worker.keys;
    let due_ms = keys.due_ms();
    let is_document = keys.db() == 0 && index.index().has(key.hash, name);
    if !is_document || keys.kind(&key).is_none() {
        return call.reply.null();
    }
    match keys.read::<Hash>(&key) {
        Ok(Some(hash)) => {
            call.reply.array(2 * hash.live_len(due_ms));
            for field in hash.iter().filter(|field| field.is_live(due_ms)) {
                bulk(call.reply, field.name);
                bulk(call.reply, field.value);
            }
        }
        Ok(None) => call.reply.null(),
        Err(_) => call.reply.array(0),
    }
}

fn bulk(reply: &mut Reply, element: Element<'_>) {
    match element {
        Element::Bytes(bytes) => reply.bulk(bytes),
        Element::Int(int) => reply.bulk_int(int),
    }
}

fn del(call: &mut Call<'_>) -> Outcome {
    index_of(call, true)?;
    let key = Key::new(call.arg(2));
    let keys = &mut call.worker.keys;
    let is_deleted = keys.delete(&key);
    if is_deleted {
        keys.changed(&key, EventClass::GENERIC, "del");
        keys.effects.replace(keys.db(), || [b"DEL".as_slice(), key.bytes]);
    }
    call.reply.int(i64::from(is_deleted));
    Ok(())
}

fn synadd(_: &mut Call<'_>) -> Outcome {
    Err(Error::Fixed("No longer suppoted, use FT.SYNUPDATE"))
}
