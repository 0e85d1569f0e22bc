//! The raw-wire suite: plain text files of requests and expected replies that run against any server.
//!
//! A file is one command family; a case in it begins with `== name` and runs on an empty server, over its own
//! connections. Statements, one a line (`N` is a connection, 1 when absent):
//!
//! ```text
//! # comment
//! == name of the case
//! @on redis>=7.2 valkey martlet    only on these servers (default: on all)
//! @since 7.2                       short for the line above with that Redis version
//! @module NAME                     only on servers with this module, by its name in MODULE LIST
//! @resp 3                          only under this protocol (default: under 2, then under 3)
//! @config NAME VALUE               CONFIG SET for the case, set back after it
//! @serial                          never replayed in fragments or in one write
//! @unanswered                      some of its requests get no reply; serial too
//! N> SET "k\r\n" v                 send a request (quotes and escapes as in redis-cli, `\{xy*1000}` repeats)
//! N>> *1\r\n$4\r\nPING\r\n         send these bytes
//! N?> GET k                        send until the next reply is the expected one
//! N< PATTERN                       the next reply (see `pattern`); `<2` and `<3` for one protocol only
//! N<< +OK\r\n                      the next bytes, exactly
//! N< <eof>                         the server closes the connection
//! N close                          close it ourselves
//! N half-close                     close our sending side
//! blocked COUNT                    wait until that many clients are blocked
//! ```
//!
//! A case that reads the reply `<int>=id` may send `${id}` later. At the end of a case no connection may hold
//! a reply that the case did not expect.

mod case;
mod pattern;
mod record;
mod run;
mod target;
pub(crate) mod words;

pub use case::{Case, CaseFile, ParseError, load_directory, parse};
pub use pattern::{Bindings, Pattern, Protocol};
pub use record::record;
pub use run::{Delivery, Failure, Report, run_case, run_file};
pub use target::{Target, TargetKind};
