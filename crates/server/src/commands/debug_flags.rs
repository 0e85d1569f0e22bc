//! Flags of all subcommands of DEBUG.

use martlet_command::Flags;

pub(in crate::commands) const FLAGS: Flags =
    Flags::DEBUG.with(Flags::ADMIN).with(Flags::NOSCRIPT).with(Flags::LOADING).with(Flags::STALE);
