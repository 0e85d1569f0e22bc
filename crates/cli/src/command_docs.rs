//! The server's documentation, requested over a separate connection while the prompt is there already.
//!
//! Invariant: a prompt never waits for it; only help and completion do, for a limited time.

use martlet_base::sync::{lock, wait_while_at_most};

use crate::connection::Connection;
use crate::docs::Docs;
use crate::interrupt;
use crate::settings::Settings;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long help and completions wait.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub socket: Option<PathBuf>,
    pub host: String,
    pub port: u16,
}

#[derive(Default)]
struct State {
    /// The server that was asked last.
    place: Option<Place>,
    is_asking: bool,
    docs: Option<Arc<Docs>>,
}

/// Documentation of the server's commands.
#[derive(Default)]
pub struct CommandDocs {
    state: Mutex<State>,
    arrived: Condvar,
}

impl CommandDocs {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begins to ask, unless this server was asked before.
    pub fn ask(self: &Arc<Self>, settings: &Settings, place: Place) {
        let mut state = self.state();
        if state.is_asking || state.place.as_ref() == Some(&place) {
            return;
        }
        *state = State { place: Some(place.clone()), is_asking: true, docs: None };
        let (command_docs, settings) = (self.clone(), settings.clone());
        let asker = std::thread::Builder::new().name("docs".into()).spawn(move || {
            // One that it took would end its own wait, and no other.
            interrupt::block_in_this_thread();
            let docs = load(&settings, &place);
            command_docs.put(docs);
        });
        state.is_asking = asker.is_ok();
    }

    /// Takes what there is to know, if it is anything.
    pub fn put(&self, docs: Option<Docs>) {
        let mut state = self.state();
        state.is_asking = false;
        let docs = docs.filter(|docs| !docs.entries.is_empty());
        state.docs = docs.map(Arc::new).or(state.docs.take());
        self.arrived.notify_all();
    }

    /// The documentation, if it is there now.
    pub fn now(&self) -> Option<Arc<Docs>> {
        self.state().docs.clone()
    }

    /// The documentation, once the server has answered.
    pub fn wait(&self) -> Option<Arc<Docs>> {
        wait_while_at_most(&self.arrived, self.state(), WAIT_MAX, |state| state.is_asking).docs.clone()
    }
}

/// Asks a server over a connection for this alone; errors are not printed, since the session prints them.
pub fn load(settings: &Settings, place: &Place) -> Option<Docs> {
    let mut connection = Connection::open(settings, place.socket.as_deref(), &place.host, place.port).ok()?;
    if let Some(password) = &settings.password {
        let user = settings.user.as_deref();
        let words: Vec<&[u8]> =
            std::iter::once(&b"AUTH"[..]).chain(user).chain([password.as_slice()]).collect();
        connection.command(&words).ok()?;
    }
    Docs::ask(&mut connection).ok()
}
