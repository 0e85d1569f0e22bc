//! The servers that are measured: started by the run for a row or for an experiment, or running elsewhere.

use martlet_bench::cli::options::Settings;
use martlet_bench::cli::target;
use martlet_bench::control::{Control, info_field, reply_text};
use martlet_bench::engine::INTERRUPTED;
use martlet_bench::servers::{Directory, Started, free_port, launch};
use martlet_client::resp::Reply;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Options of a server that keeps nothing.
pub const NOTHING_KEPT: [&str; 4] = ["--save", "", "--appendonly", "no"];
/// The name of the responder that does nothing.
pub const NULL: &str = "null responder";

/// A server to be measured.
#[derive(Clone, Debug)]
pub enum Contender {
    /// Started by the run.
    Command { name: String, line: String },
    /// One that runs already: it is emptied, but neither configured nor started again.
    Address { name: String, host: String, port: u16 },
    /// `martlet bench null`.
    Null { line: String },
}

impl Contender {
    /// As the report names it.
    pub fn name(&self) -> &str {
        match self {
            Contender::Command { name, .. } | Contender::Address { name, .. } => name,
            Contender::Null { .. } => NULL,
        }
    }

    /// Its command line or address.
    pub fn how(&self) -> String {
        match self {
            Contender::Command { line, .. } | Contender::Null { line } => line.clone(),
            Contender::Address { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// Starts it with these options beside its own, or connects to it.
    pub fn start(&self, options: &[&str]) -> Result<Running, String> {
        match self {
            Contender::Command { line, .. } => {
                let port = free_port()?;
                let directory = Directory::create(&std::env::temp_dir(), port)?;
                Running::launch(line, options, directory, port)
            }
            Contender::Null { line } => {
                let port = free_port()?;
                let mut words = line.split_whitespace().map(String::from);
                let program = words.next().ok_or("no program")?;
                let arguments: Vec<String> = words.chain(["-p".into(), port.to_string()]).collect();
                let process = martlet_bench::servers::start(program.as_ref(), &arguments, port)?;
                Ok(Running { process: Some(process), directory: None, settings: at("127.0.0.1", port) })
            }
            Contender::Address { host, port, .. } => {
                Ok(Running { process: None, directory: None, settings: at(host, *port) })
            }
        }
    }
}

fn at(host: &str, port: u16) -> Settings {
    Settings { host: host.into(), port, ..Settings::default() }
}

/// A server that answers. It ends with this value if it was started for it, and then its directory goes.
pub struct Running {
    process: Option<Started>,
    directory: Option<Directory>,
    /// Host and port, all else at its default.
    pub settings: Settings,
}

impl Running {
    fn launch(line: &str, options: &[&str], directory: Directory, port: u16) -> Result<Running, String> {
        let mut running =
            Running { process: None, directory: Some(directory), settings: at("127.0.0.1", port) };
        running.launch_again(line, options)?;
        Ok(running)
    }

    fn launch_again(&mut self, line: &str, options: &[&str]) -> Result<(), String> {
        let directory = self.directory.as_ref().ok_or("it was not started here")?;
        let socket = directory.0.join("socket").display().to_string();
        let options = [options, &["--unixsocket", &socket]].concat();
        self.process = Some(launch(line, &options, directory, self.settings.port)?);
        self.await_loaded()
    }

    /// Ends it as SHUTDOWN with this word does and starts it again on its directory; seconds until it has
    /// loaded.
    pub fn restart(&mut self, line: &str, how: &str, options: &[&str]) -> Result<f64, String> {
        let port = self.settings.port;
        // It answers with the end of the connection.
        let _ = self.control()?.command(&["SHUTDOWN", how]);
        martlet_bench::servers::await_end(port)?;
        self.process = None;
        let began = Instant::now();
        self.launch_again(line, options)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Its directory, if it was started here.
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_ref().map(|directory| directory.0.as_path())
    }

    /// Where it listens beside its port, when it was started to.
    pub fn socket(&self) -> Option<PathBuf> {
        Some(self.directory()?.join("socket")).filter(|path| path.exists())
    }

    /// A connection for questions.
    pub fn control(&self) -> Result<Control, String> {
        target::control(&target::resolve(&self.settings)?)
    }

    /// The reply to a command; an error reply is an error.
    pub fn command(&self, words: &[&str]) -> Result<Reply, String> {
        let reply = self.control()?.command(words).map_err(|e| e.to_string())?;
        match reply.is_error() {
            true => Err(format!("{}: {}", words.join(" "), reply_text(&reply))),
            false => Ok(reply),
        }
    }

    /// The number that a command answers.
    pub fn number(&self, words: &[&str]) -> Result<f64, String> {
        let reply = self.command(words)?;
        let text = reply.text().map(String::from_utf8_lossy).and_then(|text| text.parse().ok());
        let number = reply.integer().map(|n| n as f64).or(text);
        number.ok_or_else(|| format!("{}: {}", words.join(" "), reply_text(&reply)))
    }

    /// A field of INFO; an error if absent.
    pub fn info(&self, name: &str) -> Result<String, String> {
        let text = self.control()?.text(&["INFO"]).map_err(|e| e.to_string())?.unwrap_or_default();
        info_field(&text, name).map(String::from).ok_or_else(|| format!("INFO has no {name}"))
    }

    /// A number of INFO.
    pub fn info_number(&self, name: &str) -> Result<f64, String> {
        let text = self.info(name)?;
        text.parse().map_err(|_| format!("INFO: {name} is '{text}'"))
    }

    /// A parameter of the configuration, as a number.
    pub fn config(&self, name: &str) -> Result<f64, String> {
        let value = self.control()?.config(name).map_err(|e| e.to_string())?;
        let text = value.map_err(|reply| reply_text(&reply))?;
        text.parse().map_err(|_| format!("{name} is '{text}'"))
    }

    /// Its process, if it is on this machine.
    pub fn pid(&self) -> Result<u32, String> {
        let target = target::resolve(&self.settings)?;
        martlet_bench::cost::Meter::new(&target, None)
            .pid()
            .ok_or("the server's process is not found here".into())
    }

    fn await_loaded(&self) -> Result<(), String> {
        self.await_info("loading", "0", Duration::from_secs(600))
    }

    /// Waits until a field of INFO has this value.
    pub fn await_info(&self, name: &str, value: &str, limit: Duration) -> Result<(), String> {
        self.await_that(limit, &format!("{name}:{value}"), || Ok(self.info(name)? == value))
    }

    /// Waits until something is so; a server that does not answer yet is asked again.
    pub fn await_that(
        &self,
        limit: Duration,
        what: &str,
        holds: impl Fn() -> Result<bool, String>,
    ) -> Result<(), String> {
        let until = Instant::now() + limit;
        loop {
            let last = holds();
            if last == Ok(true) {
                return Ok(());
            }
            if INTERRUPTED.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            if Instant::now() > until {
                let why = last.err().unwrap_or_default();
                return Err(format!("{what} did not come within {} s {why}", limit.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
