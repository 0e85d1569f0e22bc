//! A load that a server cannot outrun: requests are laid out by template and sent in pipelines from one
//! thread, replies are counted and not built. It measures nothing itself; its caller reads the server's clock
//! before and after.

mod count;
mod drive;
mod template;

pub use drive::{Load, Outcome, Until};
pub use template::{Template, TemplateError};
