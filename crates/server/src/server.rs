//! The server as a whole: listeners, I/O threads, signals, the end.

use std::ffi::OsString;
use std::sync::atomic::Ordering;

use martlet_acl::Table;
use martlet_engine::Outside;
use martlet_net::Backend;

use crate::access::{check_declaration, rules, table};
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
        check_declaration(words, &rules(&self.1, &Config::default()))
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
    shared.storage().start_threads().map_err(|e| e.to_string())?;
    let addresses = tcp.iter().chain(&tls).map(|l| l.name.clone()).collect();
    crate::reconfigure::install(shared);
    crate::replication::replica::prepare(shared);
    announce(shared.storage());
    let (kind, description) = choose_backend(config.io_backend)?;
    let _ = shared.backend.set(kind.name());
    let first = kind.open().map_err(|e| e.to_string())?;
    shared.set_waker(0, first.waker());
    let others = start_others(shared, kind)?;
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
    for thread in others {
        let _ = thread.join();
    }
    remove_unix_socket(&config);
    loaded?;
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
    shared.access.load_at_start(&outside, config, &prepared.users)?;
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

/// Starts the threads besides the first and waits until all can be woken.
fn start_others(
    shared: &'static Shared,
    kind: martlet_net::Kind,
) -> Result<Vec<std::thread::JoinHandle<()>>, String> {
    let (ready, started) = std::sync::mpsc::channel::<Result<(), String>>();
    let mut threads = Vec::new();
    for thread in 1..shared.thread_count() {
        let ready = ready.clone();
        let body = move || {
            guard_thread();
            let backend = match kind.open() {
                Ok(backend) => backend,
                Err(error) => {
                    let _ = ready.send(Err(error.to_string()));
                    return;
                }
            };
            shared.set_waker(thread, backend.waker());
            let _ = ready.send(Ok(()));
            if let Err(error) = Worker::new(shared, thread, &crate::wiring::HOOKS).run_loop(backend) {
                tracing::error!("The I/O backend of thread {thread} has failed: {error}");
                shared.stop();
            }
        };
        let handle = std::thread::Builder::new().name(format!("io-{thread}")).spawn(body);
        threads.push(handle.map_err(|e| format!("Can't start I/O thread {thread}: {e}"))?);
    }
    for _ in 1..shared.thread_count() {
        started.recv().map_err(|e| e.to_string())??;
    }
    Ok(threads)
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
