//! What a command is: its entry, the notation of its arguments, how its options are read, and the errors
//! that it answers. Servers and Sentinels build their tables of these entries, access control judges by them.
//! [`data_type`] lists which commands describe a value of each data type, for tools.
//!
//! Nothing here knows keys, values or a handler's type: [`Command`] takes the handler as a parameter.

pub mod about;
pub mod cursor;
pub mod data_type;
pub mod entry;
pub mod error;
pub mod events;
pub mod flags;
pub mod handshake;
pub mod module;
pub mod presentation;
pub mod syntax;
pub mod tracking;
pub mod words;

pub use about::{Change, Deprecation, Tip};
pub use cursor::Cursor;
pub use entry::{
    Begin, Channels, Command, Control, Databases, Find, FindKeyFlags, FindKeys, FindSecrets, Group, KeyPart,
    LibraryChange, ScriptSource, Spec, command, container,
};
pub use error::{Error, Outcome};
pub use events::EventClass;
pub use flags::{Acl, Flags, KeyFlags};
pub use module::Module;
pub use presentation::Presentation;
pub use words::{InValkey, Words};
