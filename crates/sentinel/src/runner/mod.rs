//! The program: one thread that waits for sockets and for the next tick.
//!
//! Invariants: nothing blocks but the disk, and the first look-up of a host name, which is bounded; the state
//! machine's outputs are carried out in their order. Buffers, clients and children have limits.

mod children;
mod clients;
mod log;
mod peers;
mod poller;
mod resolver;
mod start;
mod transport;
mod world;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use martlet_base::background::PidFile;
use martlet_base::clock::Clock;
use rustix::event::epoll::EventFlags;

pub use start::main;

use crate::commands::Core;
use crate::machine::Output;
use children::Children;
use clients::Clients;
use log::Log;
use peers::Peers;
use poller::{Poller, Token};

/// Exit status of a crash that SENTINEL SIMULATE-FAILURE asked for.
const CRASH_STATUS: i32 = 99;

/// See the [module docs](self).
pub struct Program {
    core: Core,
    clients: Clients,
    peers: Peers,
    children: Children,
    poller: Poller,
    log: Log,
    clock: Clock,
    /// A signal asked for the end.
    stop: Arc<AtomicBool>,
    /// Goes with it.
    _pid_file: Option<PidFile>,
}

impl Program {
    /// Runs until a signal or an output ends it; returns the exit status.
    fn run(&mut self) -> io::Result<i32> {
        let now_ms = self.clock.unix_ms();
        self.core.now_ms = now_ms;
        self.core.sentinel.start(now_ms);
        let mut tick_ms = self.core.sentinel.next_tick_ms();
        loop {
            if self.core.end_pause() {
                self.clients.resume(&mut self.core);
            }
            if let Some(status) = self.carry_out() {
                return Ok(status);
            }
            self.clients.flush(&mut self.core, &self.poller);
            if self.core.is_shutting_down || self.stop.load(Ordering::Relaxed) {
                self.log.write(crate::events::Level::Warning, "Sentinel is now ready to exit, bye bye...");
                return Ok(0);
            }
            let wait_ms = (tick_ms - self.clock.unix_ms()).clamp(0, 100);
            let events = self.poller.wait(wait_ms)?;
            self.core.now_ms = self.clock.unix_ms();
            for (token, flags) in events {
                self.handle(token, flags);
            }
            let now_ms = self.clock.unix_ms();
            self.core.now_ms = now_ms;
            // The clock may have been set back: then it is time, too.
            if now_ms >= tick_ms || tick_ms - now_ms > 1_000 {
                self.children.collect(&mut self.core.sentinel, now_ms);
                self.core.sentinel.tick(now_ms);
                self.clients.close_idle(&mut self.core);
                tick_ms = self.core.sentinel.next_tick_ms();
            }
        }
    }

    fn handle(&mut self, token: Token, flags: EventFlags) {
        match token {
            Token::Listener(index) => self.clients.accept(index, &mut self.core, &self.poller),
            Token::Client(id) => self.clients.ready(id, flags, &mut self.core),
            Token::Peer(connection) => self.peers.ready(connection, flags, &mut self.core, &self.poller),
        }
    }

    /// Carries out the state machine's outputs, which may cause further ones.
    fn carry_out(&mut self) -> Option<i32> {
        loop {
            let mut outputs = VecDeque::from(self.core.take_outputs());
            if outputs.is_empty() {
                return None;
            }
            while let Some(output) = outputs.pop_front() {
                match output {
                    Output::Crash => return Some(CRASH_STATUS),
                    Output::Log(level, text) => self.log.write(level, &text),
                    Output::RunScript(job, argv) => {
                        self.children.start(job, &argv, &mut self.core.sentinel, self.core.now_ms);
                    }
                    Output::KillScript(pid) => self.children.kill(pid),
                    Output::Connect { connection, ip, port } => {
                        self.peers.connect(connection, &ip, port, &mut self.core, &self.poller);
                    }
                    Output::Close(connection) => self.peers.close(connection),
                    Output::Send(connection, request) => {
                        self.peers.send(connection, &request, &mut self.core, &self.poller);
                    }
                    Output::Publish { .. } => {}
                }
            }
        }
    }
}
