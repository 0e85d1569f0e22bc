//! A built program is tried before it is packed, as a user would: it serves, over TLS too, runs a script,
//! saves, and loads its file; its own client and load tester send the requests.

use martlet_testkit::server::{ReservedPort, Server};
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::run::Outcome;

/// A save, or a start, that takes longer never ends.
const PATIENCE: Duration = Duration::from_secs(60);
/// How it is loaded for a moment.
const LOAD: [&str; 7] = ["-c", "4", "-P", "16", "--duration", "1s", "-q"];

/// A program, and how it is started here.
pub struct Program {
    /// What starts it, its path last.
    words: Vec<OsString>,
    /// Its root directory.
    root: PathBuf,
}

impl Program {
    /// One that another program runs, such as an emulator; without words for that it runs by itself.
    pub fn new(launcher: &[&str], path: &Path) -> Program {
        let words = launcher.iter().map(OsString::from).chain([path.into()]).collect();
        Program { words, root: "/".into() }
    }

    /// A copy in a root that holds nothing else. Only root may run it there.
    ///
    /// # Errors
    /// The disk's.
    pub fn in_empty_root(root: &Path, path: &Path) -> std::io::Result<Program> {
        std::fs::copy(path, root.join("martlet"))?;
        let words = vec!["chroot".into(), root.into(), "/martlet".into()];
        Ok(Program { words, root: root.into() })
    }

    /// Starts a server in a directory, which is called the same inside its root and outside.
    fn serve(&self, directory: &Path, arguments: &[String]) -> std::io::Result<Server> {
        let words = self.words[1..].iter().map(OsString::as_os_str);
        let all: Vec<&OsStr> =
            words.chain(arguments.iter().map(|argument| OsStr::new(argument.as_str()))).collect();
        Server::start_in(directory, Path::new(&self.words[0]), &all)
    }

    /// The output of one of its tools.
    fn ask(&self, tool: &[&str], arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        let output =
            Command::new(&self.words[0]).args(&self.words[1..]).args(tool).args(arguments).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("martlet {} {}: {said}", tool.join(" "), arguments.join(" ")).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Tries it in an empty directory.
    ///
    /// # Errors
    /// The first step that fails.
    pub fn try_out(&self, directory: &Path) -> Outcome {
        let inside = self.root.join(directory.strip_prefix("/").unwrap_or(directory));
        std::fs::create_dir_all(&inside)?;
        // Its log is kept here, whatever root it has.
        std::fs::create_dir_all(directory)?;
        let secure = ReservedPort::take()?;
        let mut arguments = certificate(&inside, directory)?;
        arguments.extend(["--tls-port".into(), secure.number().to_string()]);
        let server = self.serve(directory, &arguments)?;
        let port = server.address().port().to_string();
        let plain = ["cli", "-e", "-p", &port];
        let expect = |tool: &[&str], arguments: &[&str], reply: &str| match self.ask(tool, arguments)? {
            said if said.trim_end() == reply => Ok(()),
            said => Err(Box::<dyn Error>::from(format!("{}: {said}", arguments.join(" ")))),
        };
        expect(&plain, &["PING"], "PONG")?;
        let script =
            "return redis.call('SET', KEYS[1], cjson.encode({1, cmsgpack.unpack(cmsgpack.pack(2.5))}))";
        expect(&plain, &["EVAL", script, "1", "greeting"], "OK")?;
        let (number, file) = (secure.number().to_string(), directory.join("tls.crt"));
        let over_tls = ["cli", "-e", "-p", &number, "--tls", "--cacert", &file.to_string_lossy()];
        expect(&over_tls, &["GET", "greeting"], "[1,2.5]")?;
        let load = self.ask(&["bench", "-p", &port], &[&LOAD[..], &["-t", "set,get"]].concat())?;
        if load.lines().filter(|line| line.contains("requests per second")).count() != 2 {
            return Err(format!("martlet bench: {load}").into());
        }
        expect(&plain, &["BGSAVE"], "Background saving started")?;
        let deadline = Instant::now() + PATIENCE;
        while self.ask(&plain, &["INFO", "persistence"])?.contains("rdb_bgsave_in_progress:1") {
            if Instant::now() > deadline {
                return Err("the save does not end".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(server);
        let server = self.serve(directory, &arguments)?;
        let port = server.address().port().to_string();
        expect(&["cli", "-e", "-p", &port], &["GET", "greeting"], "[1,2.5]")
    }
}

/// A server's arguments that name a certificate for this machine, which is written to `inside` and is in
/// `directory` for the server.
fn certificate(inside: &Path, directory: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    std::fs::write(inside.join("tls.crt"), made.cert.pem())?;
    std::fs::write(inside.join("tls.key"), made.signing_key.serialize_pem())?;
    let path = |name| directory.join(name).to_string_lossy().into_owned();
    let named = [("cert", "tls.crt"), ("key", "tls.key"), ("ca-cert", "tls.crt")];
    let files = named.into_iter().flat_map(|(what, name)| [format!("--tls-{what}-file"), path(name)]);
    let others = ["--tls-auth-clients", "no", "--save", ""].map(str::to_owned);
    Ok(std::iter::once("server".to_owned()).chain(files).chain(others).collect())
}
