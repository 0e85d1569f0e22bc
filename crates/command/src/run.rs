//! The one way in which a data command's handler runs, for any caller: a client, EXEC, a script, a change
//! that serves a blocked client, or the replay of a file.
//!
//! Invariant: nothing else makes a [`Context`]. The caller locks the keys' shards before and releases them
//! afterwards, since it alone knows the further work under the locks.

use martlet_engine::{Keys, View};
use martlet_keyspace::{Key, shard_of};
use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;
use martlet_spec::{Error, Flags, Spec};

use crate::Handler;
use crate::context::{Block, Context, KeyReader, Settings};
use crate::fieldset::Fieldsets;

/// A request, and its handler's rights.
pub struct Request<'a> {
    /// The arguments; argument 0 is the command's name.
    pub args: Args<'a>,
    /// See [`Context::settings`].
    pub settings: &'a Settings,
    /// See [`Context::first_key`].
    pub first_key: Option<(usize, u64)>,
    /// See [`Context::reads_any_key`].
    pub reads_any_key: bool,
    /// See [`Context::may_read_key`].
    pub may_read_key: Option<KeyReader<'a>>,
    /// See [`Context::deny_blocking`].
    pub deny_blocking: bool,
    /// See [`Context::fieldsets`].
    pub fieldsets: &'a mut Fieldsets,
}

/// Runs a handler with its keys locked and seen as `view` says, and passes its effects to the journal's
/// record. Returns its wait if it has to wait, in which case nothing is answered.
///
/// # Errors
/// The handler's, unwritten: the reply is as it was. Only boxes leave the place where they are made: a value
/// that moves is read back in wider pieces than it was written in.
#[inline(always)]
pub fn run(
    handler: Handler,
    keys: &mut Keys,
    view: View,
    reply: &mut Reply,
    request: Request<'_>,
) -> Result<Option<Box<Block>>, Box<Error>> {
    let Request { args, settings, first_key, reads_any_key, may_read_key, deny_blocking, fieldsets } =
        request;
    keys.see(view);
    let (begin, dirty) = (reply.len(), keys.dirty);
    let fieldsets = &mut *fieldsets;
    let mut context = Context {
        args,
        keys,
        reply,
        settings,
        first_key,
        reads_any_key,
        may_read_key,
        deny_blocking,
        fieldsets,
        block: None,
    };
    let outcome = match handler(&mut context) {
        Ok(()) => Ok(context.block.take()),
        Err(Error::NeedsShards) => with_more_shards(handler, &mut context),
        Err(error) => Err(Box::new(error)),
    };
    let Context { keys, reply, .. } = context;
    keys.effects.request_ended(keys.db(), &args, keys.dirty != dirty);
    if outcome.is_err() {
        reply.truncate(begin);
    }
    outcome
}

/// How often a request is run again because the data names further keys. They may be other ones each time.
const RELOCKS_MAX: usize = 64;

/// Runs a handler again with the shards that it has asked for.
#[cold]
fn with_more_shards(handler: Handler, context: &mut Context<'_>) -> Result<Option<Box<Block>>, Box<Error>> {
    for _ in 0..RELOCKS_MAX {
        if !context.keys.relock_wanted() {
            break;
        }
        match handler(context) {
            Ok(()) => return Ok(context.block.take()),
            Err(Error::NeedsShards) => {}
            Err(error) => return Err(Box::new(error)),
        }
    }
    Err(Box::new(Error::NeedsShards))
}

/// Whether a request, whose keys are locked, may need shards besides the locked ones.
pub fn reaches_beyond(keys: &Keys, settings: &Settings, spec: &Spec, args: &Args<'_>) -> bool {
    let mut indexes = Vec::new();
    if !spec.follows_links.is_some_and(|follows| follows(args)) || !spec.key_indexes(args, &mut indexes) {
        return false;
    }
    let names_others = |index: usize| {
        let key = Key::new(args.at(index));
        keys.covers(key.shard()) && crate::tseries::links_of(keys, &key).any(|shard| !keys.covers(shard))
    };
    let creates_others = spec.flags.has(Flags::WRITE) && !settings.series.compactions.is_empty();
    creates_others || indexes.into_iter().any(names_others)
}

/// The hashes of a request's keys; `None` if it needs the whole store.
pub fn key_hashes(spec: &Spec, args: &Args<'_>) -> Option<Vec<u64>> {
    if spec.flags.has(Flags::EXCLUSIVE) || spec.undeclared_keys.is_some_and(|touches| touches(args)) {
        return None;
    }
    let mut indexes = Vec::new();
    if spec.flags.has(Flags::WALK) || !spec.key_indexes(args, &mut indexes) {
        // A walk locks its shards itself, one at a time. Else the handler reports the fault of the arguments,
        // before it touches any key.
        return Some(Vec::new());
    }
    Some(indexes.into_iter().map(|index| Key::new(args.at(index)).hash).collect())
}

/// The shards that must be locked for a request; `None` if it needs the whole store.
pub fn shards(spec: &Spec, args: &Args<'_>) -> Option<Vec<usize>> {
    let hashes = key_hashes(spec, args)?;
    Some(hashes.into_iter().map(shard_of).collect())
}
