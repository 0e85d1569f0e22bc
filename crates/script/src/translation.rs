//! A script's program, and whether running it pays.

use std::cell::{Cell, OnceCell};

use martlet_bytecode::Program;

/// See the [module docs](self).
#[derive(Debug, Default)]
pub(crate) struct Translation {
    /// Its program, once it has been asked for; none if it has no such.
    program: OnceCell<Option<Box<Program>>>,
    /// Whether it has run.
    has_run: Cell<bool>,
    /// Rises with each run that Lua had to do again, and falls with others.
    left: Cell<u32>,
    /// Runs until the next that is tried without Lua.
    pause: Cell<u32>,
}

impl Translation {
    /// The program to run, if one is to be: not in a script's first run, since many have no second. (In a
    /// build with debug assertions in the first one, too, so that tests see it.)
    pub fn program(&self, translate: impl FnOnce() -> Option<Box<Program>>) -> Option<&Program> {
        if !self.has_run.replace(true) && !cfg!(debug_assertions) {
            return None;
        }
        if let Some(pause) = self.pause.get().checked_sub(1) {
            self.pause.set(pause);
            return None;
        }
        self.program.get_or_init(translate).as_deref()
    }

    /// Notes whether Lua had to run the script. One of which that is often true runs in Lua for a while.
    pub fn note(&self, left: bool) {
        const LEFT_COST: u32 = 8;
        const LEFT_MAX: u32 = 64;
        const PAUSE_RUNS: u32 = 1000;
        if !left {
            self.left.set(self.left.get().saturating_sub(1));
        } else if self.left.get() < LEFT_MAX {
            self.left.set(self.left.get() + LEFT_COST);
        } else {
            self.pause.set(PAUSE_RUNS);
        }
    }
}
