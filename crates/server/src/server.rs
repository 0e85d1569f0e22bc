//! The server as a whole: listeners, I/O threads, signals, the end.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use martlet_acl::Table;
use martlet_engine::Outside;
use martlet_net::Backend;

use crate::access::{rules, table};
use crate::config::{Config, IoBackend, Surroundings};
use crate::listeners::{self, Listener};
use crate::process::guard_thread;
use crate::registry::Registry;
use crate::runtime::Shared;
use crate::runtime::{TCP, TLS, UNIX, Worker};
use crate::startup::{Prepared, Serving, Start, prepare};
use martlet_persistence::start::{announce, load_at_start, size_at_start};

/// Facts for the configuration's parser: the existing commands, and the rules about them.
struct KnownCommands(Registry, Table);

impl Surroundings for KnownCommands {
    fn command_exists(&self, name: &[u8]) -> Option<bool> {
        Some(self.0.find(name).is_some())
    }

    fn check_user(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
        martlet_acl::check_user(&rules(&self.1, &Config::default()), words)
    }

    fn check_role(&self, words: &[Vec<u8>]) -> Result<(), (usize, String)> {
        martlet_acl::check_role(&rules(&self.1, &Config::default()), words)
    }
}

/// Runs the server tool: `program` is the name it was called by, `arguments` the further words. Returns the
/// exit status.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    let known = match crate::commands::registry(&[]) {
        Ok(registry) => {
            let table = table(&registry);
            KnownCommands(registry, table)
        }
        Err(message) => {
            eprintln!("{message}");
            return 1;
        }
    };
    match prepare(program, arguments, &known) {
        Start::Exit(status) => status,
        Start::Run(prepared) => {
            let log = prepared.log.clone();
            let status = match serve(*prepared) {
                Ok(()) => 0,
                Err(message) => {
                    tracing::error!("{message}");
                    1
                }
            };
            log.finish();
            status
        }
    }
}

fn serve(prepared: Prepared) -> Result<(), String> {
    prepared.log.start_thread().map_err(|e| format!("Can't start the thread for the log: {e}"))?;
    let config = prepared.store.snapshot();
    crate::cluster::choose_hash(&config);
    let threads = config.io_threads;
    let settings = crate::persistence::settings::settings(&config);
    let shared = share(&prepared, &config)?;
    crate::crash::install(shared, &prepared.log)?;
    guard_thread();
    crate::watchdog::install(shared);
    read_files(shared, &prepared, &config)?;
    let (tcp, tls, unix) = listen(&config)?;
    let bus = crate::cluster::prepare(shared, &config)?;
    shared.computations.start().map_err(|e| format!("Can't start the threads for long work: {e}"))?;
    crate::search::begin(shared);
    shared.storage().start_threads().map_err(|e| e.to_string())?;
    let addresses = tcp.iter().chain(&tls).map(|l| l.name.clone()).collect();
    crate::reconfigure::install(shared);
    crate::replication::replica::prepare(shared);
    announce(shared.storage());
    let (kind, description) = choose_backend(config.io_backend)?;
    let (kind, backends, why) = open_backends(kind, config.io_backend, threads, martlet_net::Kind::open)?;
    let description = why.map_or(description, |why| format!("{} ({why})", kind.name()));
    let _ = shared.backend.set(kind.name());
    let (first, others) = start_others(shared, backends)?;
    crate::cluster::start(shared, bus)?;
    crate::metrics::start(shared, &config)?;
    prepared
        .on_shutdown_signal(move |signal| crate::shutdown::on_signal(shared, signal))
        .map_err(|e| format!("Can't watch signals: {e}"))?;
    shared.memory_at_start.store(martlet_base::alloc::used_bytes() as u64, Ordering::Relaxed);
    // Clients can connect. Redis' test harness waits for these words, and for the process id before them.
    tracing::info!("Server initialized");
    let serving = Serving { addresses, unixsocket: config.unixsocket.clone(), backend: description, threads };
    let load = || {
        let loaded = load_at_start(shared.storage(), &settings);
        if loaded.is_err() {
            shared.stop();
        } else if !shared.stopping.load(Ordering::Relaxed) {
            prepared.ready(&serving);
            crate::replication::replica::begin(shared);
            crate::cluster::begin(shared);
        }
        loaded
    };
    let (result, loaded) = std::thread::scope(|scope| {
        // Clients need not see that a small file is loaded: they are not accepted yet.
        let loading = if size_at_start(&settings) < u64::from(config.loading_process_events_interval_bytes) {
            let loaded = load();
            scope.spawn(|| loaded)
        } else {
            scope.spawn(load)
        };
        let result = run_first(shared, first, [(tcp, TCP), (tls, TLS)], unix);
        shared.stop();
        (result, loading.join().unwrap_or_else(|_| Err("The thread that loads has failed.".into())))
    });
    // A thread whose backend has failed has said so, and has ended the server.
    let failed = others.into_iter().filter_map(|thread| thread.join().ok().flatten()).next();
    remove_unix_socket(&config);
    loaded?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    if let Some(why) = shared.cluster().and_then(|node| node.failure()) {
        return Err(why.into());
    }
    prepared.finish();
    result.map_err(|e| format!("The I/O backend has failed: {e}"))
}

fn remove_unix_socket(config: &Config) {
    if let Some(path) = &config.unixsocket {
        tracing::info!("Removing the unix socket file.");
        let _ = std::fs::remove_file(path);
    }
}

/// Reads users, certificates and keys.
fn read_files(shared: &Shared, prepared: &Prepared, config: &Config) -> Result<(), String> {
    let outside = Outside::of_background_thread();
    shared.access.load_at_start(&outside, config, &prepared.declared)?;
    shared.tls.configure(&outside, config).map_err(|why| {
        tracing::warn!("{why}");
        "Failed to configure TLS. Check logs for more info.".to_owned()
    })
}

/// Sockets for clients: TCP, TCP with TLS, the unix socket.
type Listeners = (Vec<Listener>, Vec<Listener>, Option<std::os::fd::OwnedFd>);

/// Listens for clients.
fn listen(config: &Config) -> Result<Listeners, String> {
    let tcp = listeners::tcp(config, listeners::Kind::Plain, listeners::START_PATIENCE, &[])?;
    let tls = listeners::tcp(config, listeners::Kind::Tls, listeners::START_PATIENCE, &[])?;
    let unix = listeners::unix(config)?;
    if tcp.is_empty() && tls.is_empty() && unix.is_none() {
        return Err("Configured to not listen anywhere, exiting.".into());
    }
    Ok((tcp, tls, unix))
}

/// What all threads share, for as long as the process lives.
fn share(prepared: &Prepared, config: &crate::config::Config) -> Result<&'static Shared, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let renames: Vec<_> = prepared.renames.iter().map(|(old, new)| (text(old), text(new))).collect();
    let registry: &'static Registry = Box::leak(Box::new(crate::commands::registry(&renames)?));
    let file = prepared.store.file().map(std::path::Path::to_path_buf);
    let shared = Shared::new(prepared.store.clone(), registry, config.io_threads, file);
    let shared: &'static Shared = Box::leak(Box::new(shared.map_err(|e| e.to_string())?));
    shared.port.store(u32::from(listeners::first_port(config)), Ordering::Relaxed);
    let _ = shared.log.set(prepared.log.clone());
    let _ = shared.oom_score.set(prepared.score.clone());
    let _ = shared.supervisor.set(prepared.supervisor.name());
    Ok(shared)
}

/// The first thread's loop: it has the listeners.
fn run_first(
    shared: &'static Shared,
    backend: Box<dyn Backend + Send>,
    tcp: [(Vec<Listener>, u32); 2],
    unix: Option<std::os::fd::OwnedFd>,
) -> std::io::Result<()> {
    let mut worker = Worker::new(shared, 0, &crate::wiring::HOOKS);
    for (listeners, tag) in tcp {
        for listener in listeners {
            shared.note_listening(tag, &listener.socket);
            worker.listen(listener.socket, tag);
        }
    }
    if let Some(socket) = unix {
        shared.note_listening(UNIX, &socket);
        worker.listen(socket, UNIX);
    }
    worker.run_loop(backend)
}

/// The backends of all I/O threads. One thread's ring may open and another's not (out of locked memory): then
/// all of them use epoll, unless io_uring alone was asked for; that is why the third value says so.
type Backends = (martlet_net::Kind, Vec<Box<dyn Backend + Send>>, Option<String>);

fn open_backends(
    kind: martlet_net::Kind,
    choice: IoBackend,
    threads: usize,
    open: impl Fn(martlet_net::Kind) -> std::io::Result<Box<dyn Backend + Send>>,
) -> Result<Backends, String> {
    let open_all = |kind| (0..threads).map(|_| open(kind)).collect::<Result<Vec<_>, _>>();
    match open_all(kind) {
        Ok(backends) => Ok((kind, backends, None)),
        Err(why) if choice == IoBackend::Auto && kind != martlet_net::Kind::Epoll => {
            let why = format!("io_uring does not work here for {threads} threads: {why}");
            tracing::warn!("{why}");
            let backends = open_all(martlet_net::Kind::Epoll).map_err(|e| e.to_string())?;
            Ok((martlet_net::Kind::Epoll, backends, Some(why)))
        }
        Err(why) => Err(format!("Can't open the I/O backend {}: {why}", kind.name())),
    }
}

/// A thread besides the first; it ends with the server, or with why its backend has failed.
type OtherThread = std::thread::JoinHandle<Option<String>>;

/// Starts the threads besides the first, all of which can be woken; the first thread's backend is returned.
fn start_others(
    shared: &'static Shared,
    backends: Vec<Box<dyn Backend + Send>>,
) -> Result<(Box<dyn Backend + Send>, Vec<OtherThread>), String> {
    let mut backends = backends.into_iter();
    let first = backends.next().ok_or("There is no I/O thread.")?;
    shared.set_waker(0, first.waker());
    let start = |(thread, backend): (usize, Box<dyn Backend + Send>)| {
        shared.set_waker(thread, backend.waker());
        let body = move || {
            guard_thread();
            let failed = Worker::new(shared, thread, &crate::wiring::HOOKS).run_loop(backend).err();
            failed.map(|error| {
                shared.stop();
                format!("The I/O backend of thread {thread} has failed: {error}")
            })
        };
        let handle = std::thread::Builder::new().name(format!("io-{thread}")).spawn(body);
        handle.map_err(|e| format!("Can't start I/O thread {thread}: {e}"))
    };
    let others: Result<Vec<OtherThread>, String> = (1..).zip(backends).map(start).collect();
    others.map(|others| (first, others))
}

/// The kind of backend to use, and its name in the banner.
fn choose_backend(choice: IoBackend) -> Result<(martlet_net::Kind, String), String> {
    let wanted = match choice {
        IoBackend::Auto => martlet_net::Choice::Auto,
        IoBackend::Uring => martlet_net::Choice::Uring,
        IoBackend::Epoll => martlet_net::Choice::Epoll,
    };
    let (kind, reason) = martlet_net::choose(wanted).map_err(|e| e.to_string())?;
    let description = match reason {
        Some(reason) => format!("{} ({reason})", kind.name()),
        None => kind.name().to_owned(),
    };
    Ok((kind, description))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use martlet_net::Kind;

    use super::*;

    /// Opens rings until there are two, as a limit on locked memory does.
    fn open(kind: Kind, opened: &Cell<usize>) -> std::io::Result<Box<dyn Backend + Send>> {
        if kind == Kind::Uring {
            opened.set(opened.get() + 1);
            if opened.get() > 2 {
                return Err(std::io::Error::from_raw_os_error(libc::ENOMEM));
            }
        }
        Kind::Epoll.open()
    }

    #[test]
    fn a_ring_that_does_not_open_has_all_threads_use_epoll() {
        let opened = Cell::new(0);
        let (kind, backends, why) =
            open_backends(Kind::Uring, IoBackend::Auto, 4, |kind| open(kind, &opened)).unwrap();
        assert_eq!((kind, backends.len()), (Kind::Epoll, 4));
        let why = why.unwrap();
        assert!(why.contains("for 4 threads") && why.contains("memory"), "{why}");
        opened.set(0);
        let few = open_backends(Kind::Uring, IoBackend::Auto, 2, |kind| open(kind, &opened)).unwrap();
        assert_eq!((few.0, few.1.len(), few.2), (Kind::Uring, 2, None));
        opened.set(0);
        // It alone was asked for.
        let refused = open_backends(Kind::Uring, IoBackend::Uring, 3, |kind| open(kind, &opened));
        assert!(refused.err().is_some_and(|why| why.starts_with("Can't open the I/O backend io_uring: ")));
    }
}
