//! A request's work on files: outside the gate, with nothing locked.
//!
//! A handler runs inside the gate, or with it closed, and within EXEC with other commands' keys locked. So it
//! leaves what waits for the disk to be done afterwards ([`Call::answer_outside`]). Once the request's keys
//! are released the thread leaves the gate, does that, and puts the answer where it belongs, in EXEC's array
//! too. Other threads are not held up, whatever the disk does.
//!
//! Invariant: within a transaction such work is done in the commands' order, behind all of them.

use martlet_command::Outcome;
use martlet_engine::Outside;
use martlet_persistence::EmptyFile;
use martlet_protocol::reply::Reply;

use super::Worker;
use super::call::Call;
use crate::connection::Connection;
use crate::registry::Entry;

/// Work of a request that waits for the disk, and decides whether its answer is OK. Nothing is locked.
type Work = Box<dyn FnOnce(&mut Worker, &mut Connection) -> Outcome + Send>;

/// Such work, and where its answer goes.
pub(crate) struct Unanswered {
    /// In the reply; `None` if it was answered before, as scripts cannot wait.
    at: Option<usize>,
    entry: &'static Entry,
    work: Work,
}

/// Work for outside the gate.
#[derive(Default)]
pub(crate) struct LeftOutside {
    /// Of the present request.
    unanswered: Vec<Unanswered>,
    /// The data set was emptied behind the gate: its file.
    empty_file: Option<EmptyFile>,
}

impl LeftOutside {
    /// Whether the present request has left something.
    pub fn is_any(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// The file of a data set that was emptied is to be written.
    pub fn set_empty_file(&mut self, file: Option<EmptyFile>) {
        self.empty_file = file;
    }

    /// Takes that file.
    pub fn take_empty_file(&mut self) -> Option<EmptyFile> {
        self.empty_file.take()
    }
}

impl Call<'_> {
    /// Has `work` done once nothing is locked, and answers then.
    pub(crate) fn answer_outside(
        &mut self,
        work: impl FnOnce(&mut Worker, &mut Connection) -> Outcome + Send + 'static,
    ) {
        let is_script = self.worker.shared.scripts.running(self.worker.thread).is_running();
        if is_script {
            self.reply.ok();
        }
        let at = (!is_script).then(|| self.reply.len());
        self.worker.left.unanswered.push(Unanswered { at, entry: self.entry, work: Box::new(work) });
    }
}

impl Worker {
    /// Runs `work` outside the gate, which the thread passes again after it. Nothing may be locked.
    pub(crate) fn outside<R>(&mut self, work: impl FnOnce(&Outside) -> R) -> R {
        debug_assert!(self.keys.has_no_shards(), "the disk is waited for with keys locked");
        self.leave();
        self.stats().begin();
        let result = self.shared.engine.gate.outside(self.thread, work);
        self.enter();
        result
    }

    /// Does the work that a request has left for outside the gate, and answers.
    #[cold]
    pub(crate) fn answer_from_outside(&mut self, connection: &mut Connection, reply: &mut Reply) {
        let mut added = 0;
        for Unanswered { at, entry, work } in std::mem::take(&mut self.left.unanswered) {
            let mut answer = Reply::default();
            match work(self, connection) {
                Ok(()) => answer.ok(),
                Err(error) => self.fail(&mut answer, entry, &error),
            }
            if let Some(at) = at {
                reply.insert(at + added, answer.as_bytes());
                added += answer.len();
            }
        }
    }

    /// Writes the file of a data set that was emptied behind the gate, which is open again.
    pub(crate) fn write_empty_file(&mut self, file: Option<EmptyFile>) {
        if let Some(file) = file {
            let shared = self.shared;
            shared.engine.gate.outside(self.thread, |outside| file.write(shared.storage(), outside));
        }
    }
}
