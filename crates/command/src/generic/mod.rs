//! Commands for keys of any type: whether they are there ([`presence`]), when they expire ([`expire`]),
//! moving and copying them ([`transfer`]), walking over them ([`walk`]), emptying databases ([`flush`]),
//! values as bytes ([`dump`]), WAIT and OBJECT.

use crate::Handler;
use martlet_spec::Command;

mod dump;
mod expire;
mod flush;
#[cfg(test)]
mod model_tests;
mod object;
mod presence;
mod slot_scan;
#[cfg(test)]
mod tests;
mod transfer;
mod walk;

pub use dump::IGNORES_CHECKSUMS;
pub use object::memory_usage;
pub use slot_scan::{SlotPlace, SlotScan};
pub use transfer::database;
pub use walk::parse_cursor;

/// The family.
pub static COMMANDS: &[&Command<Handler>] = &[
    &presence::DEL,
    &presence::UNLINK,
    &presence::EXISTS,
    &presence::TYPE,
    &presence::TOUCH,
    &expire::EXPIRE,
    &expire::PEXPIRE,
    &expire::EXPIREAT,
    &expire::PEXPIREAT,
    &expire::TTL,
    &expire::PTTL,
    &expire::EXPIRETIME,
    &expire::PEXPIRETIME,
    &expire::PERSIST,
    &transfer::RENAME,
    &transfer::RENAMENX,
    &transfer::COPY,
    &transfer::MOVE,
    &walk::KEYS,
    &walk::SCAN,
    &walk::RANDOMKEY,
    &walk::DBSIZE,
    &flush::FLUSHDB,
    &flush::FLUSHALL,
    &flush::SWAPDB,
    &flush::TRIMSLOTS,
    &object::OBJECT,
    &dump::DUMP,
    &dump::RESTORE,
    &dump::RESTORE_ASKING,
];
