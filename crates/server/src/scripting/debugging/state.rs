//! A connection's settings of SCRIPT DEBUG, and its session.

use std::sync::Arc;

use martlet_protocol::request::OwnedArgs;
use martlet_script::ScriptFlags;

use super::copy::Copy;
use super::input::Input;
use crate::registry::Entry;

/// SCRIPT DEBUG.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum DebugMode {
    /// NO: EVAL runs scripts.
    #[default]
    Off,
    /// YES: it debugs them, on a copy of the keys.
    Copy,
    /// SYNC: it debugs them, and no other client's request runs in that time.
    Sync,
}

/// A session. It ends when this is dropped.
pub struct Debugged {
    /// The client's input, which is the debugger's.
    pub input: Arc<Input>,
    /// EVAL, or EVAL_RO.
    pub entry: &'static Entry,
    /// The request.
    pub request: OwnedArgs,
    /// The script's digest.
    pub name: String,
    /// The flags of its first line.
    pub flags: ScriptFlags,
    /// It may not write.
    pub is_read_only: bool,
    /// The slot of its keys, in a cluster, once it is known.
    pub slot: Option<u16>,
    /// The database that it has selected.
    pub db: usize,
    /// It has changed something.
    pub writes: bool,
    /// The keys that it sees, unless it sees the server's.
    pub copy: Option<Copy>,
}

impl Drop for Debugged {
    fn drop(&mut self) {
        self.input.kill();
    }
}
