//! Access control: users, their rules and roles, and the log of refusals.
//!
//! Invariant: a [`User`], a [`Role`] and the list of all [`Users`] never change once they are published; a
//! change makes a copy, and a wrong rule leaves no trace. Nothing here knows connections, files or threads.

mod bits;
mod declared;
mod error;
mod log;
mod ordered;
mod password;
pub mod replies;
mod request;
mod role;
mod selector;
mod selectors;
mod table;
mod user;
mod users;

pub use declared::{check_role, check_user};
pub use error::{Denial, RuleError, SetError};
pub use log::{Event, Log, LogEntry, Origin, Reason};
pub use password::Password;
pub use request::{Request, Rules, is_valid_name};
pub use role::{Role, Roles, role_name_fault};
pub use selector::{Access, Selector};
pub use table::{Listed, Table};
pub use user::User;
pub use users::{DEFAULT_USER, Users};

#[cfg(test)]
mod tests;
