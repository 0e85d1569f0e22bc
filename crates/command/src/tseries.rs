//! Time series, as RedisTimeSeries has them. Samples are written in `add`, settings and rules in `create`,
//! one series is read in `range`, those of a filter in `many`, TS.INFO is in `info`. `options` reads the
//! arguments, `links` keeps what ties a series to other keys, `reply` writes samples and labels.
//!
//! Invariant: a key that a series names is changed only with its shard locked (`links::lock`), before the
//! request has changed anything.

mod add;
mod create;
mod info;
mod links;
mod many;
mod options;
#[cfg(test)]
mod oracle_tests;
mod range;
mod reply;
#[cfg(test)]
mod tests;

use martlet_engine::Keys;
use martlet_keyspace::Key;
use martlet_spec::{Acl, Command, Error, Flags, KeyFlags, KeyPart};
use martlet_values::time_series::TimeSeries;

use crate::Handler;
use crate::context::Context;

pub(crate) use links::{links_of, lock_renamed, renamed};

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &add::ADD,
    &add::DECRBY,
    &add::DEL,
    &add::INCRBY,
    &add::MADD,
    &create::ALTER,
    &create::CREATE,
    &create::CREATERULE,
    &create::DELETERULE,
    &info::INFO,
    &many::MGET,
    &many::MRANGE,
    &many::MREVRANGE,
    &many::QUERYINDEX,
    &many::QUERYLABELS,
    &range::GET,
    &range::NRANGE,
    &range::NREVRANGE,
    &range::RANGE,
    &range::READ,
    &range::REVRANGE,
];

const WRITES: Acl = Acl::TIMESERIES.with(Acl::WRITE);
const READ_ONLY: Acl = Acl::TIMESERIES.with(Acl::READ);
const GROWS: Flags = Flags::WRITE.with(Flags::DENYOOM);
const READS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))];
const CHANGES: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::UPDATE))];
const INSERTS: &[KeyPart] = &[KeyPart::one(1, KeyFlags::RW.with(KeyFlags::INSERT))];

/// The argument for which memory is asked ahead: the key, since these commands meet the last sample.
const SERIES: usize = 1;

const NO_KEY: Error = Error::Fixed("ERR TSDB: the key does not exist");
/// As RedisTimeSeries words it.
const WRONG_TYPE: Error =
    Error::Fixed("ERR WRONGTYPE Operation against a key holding the wrong kind of value");
const NO_SERIES: Error = Error::Fixed("ERR TSDB: the key is not a TSDB key");

/// An error of the series' own.
fn refused(error: martlet_tseries::error::Error) -> Error {
    Error::Fixed(error.reply())
}

/// The error for a wrong number of arguments.
fn arity(ctx: &Context<'_>) -> Error {
    let name = String::from_utf8_lossy(ctx.arg(0)).to_lowercase();
    Error::Text(format!("ERR wrong number of arguments for '{name}' command"))
}

/// The series at a key, for a command that reads.
fn read<'k>(keys: &'k mut Keys, key: &Key<'_>) -> Result<&'k TimeSeries, Error> {
    keys.read::<TimeSeries>(key).map_err(|_| WRONG_TYPE)?.ok_or(NO_KEY)
}

/// The series at a key that has been looked up.
fn peek<'k>(keys: &'k Keys, key: &Key<'_>) -> Option<&'k TimeSeries> {
    keys.get(key)?.object::<TimeSeries>()
}

/// Whether a series is at a key, for a command that changes it.
///
/// # Errors
/// That there is none.
fn read_for_write(keys: &mut Keys, key: &Key<'_>) -> Result<(), Error> {
    let entry = keys.lookup_write(key).ok_or(NO_KEY)?;
    entry.object::<TimeSeries>().map(|_| ()).ok_or(WRONG_TYPE)
}
