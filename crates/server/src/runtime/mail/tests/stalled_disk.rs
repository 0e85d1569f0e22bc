//! A disk that takes nothing for any time: commands that write wait, with nothing locked and outside of the
//! gate, and all other requests are served.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use martlet_base::disk::GatedDisk;
use martlet_base::disk::faults::{FaultyDisk, Operation};
use martlet_net::{Sink, Token};

use crate::config::{AppendFsync, Config, ConfigStore};
use crate::persistence::settings::settings;
use crate::runtime::Shared;
use crate::runtime::{UNIX, Worker};
use martlet_persistence::start::{announce, load_at_start};

/// Most values that wait for the disk, each of 1 MB, and the size of a value.
const VALUES: usize = 128;
const VALUE_BYTES: usize = 1 << 20;
const STRLEN: &[u8] = b"*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n";
const DEL: &[u8] = b"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";

/// A worker of a server whose append-only file is on `disk`.
fn worker(directory: &std::path::Path, disk: FaultyDisk) -> Worker {
    let appendfsync = AppendFsync::No;
    let config = Config { dir: directory.into(), appendonly: true, appendfsync, ..Config::default() };
    let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
    let mut shared = Shared::new(ConfigStore::new(config.clone()), registry, 1, None).unwrap();
    shared.persistence.disk = GatedDisk::new(Arc::new(disk));
    let shared: &'static Shared = Box::leak(Box::new(shared));
    announce(shared.storage());
    load_at_start(shared.storage(), &settings(&config)).unwrap();
    Worker::new(shared, 0, &crate::wiring::HOOKS)
}

pub(super) fn client(worker: &mut Worker) -> (Token, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    worker.adopt(ours.into(), UNIX);
    (worker.connections.last_mut().unwrap().token, theirs)
}

/// The client's output upon this, or so far.
pub(super) fn ask(worker: &mut Worker, client: Token, request: &[u8]) -> Vec<u8> {
    if !request.is_empty() {
        worker.received(client, request);
        worker.leave();
    }
    let mut connection = worker.take(client).unwrap();
    let told = std::mem::take(&mut connection.out);
    worker.finish(connection);
    told
}

#[test]
fn while_the_disk_is_stalled_who_writes_waits_and_nobody_else() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(|_, _, _| None);
    let mut worker = worker(directory.path(), disk.clone());
    let (go_on, stalled) = channel::<()>();
    disk.plan(move |_, operation, _| {
        if operation == Operation::Write {
            // Until the sender is dropped.
            let _ = stalled.recv();
        }
        None
    });
    let (done, ended) = channel();
    let serving = std::thread::spawn(move || {
        let shared = worker.shared;
        let ((writer, _a), (other, _b), (reader, _c)) =
            (client(&mut worker), client(&mut worker), client(&mut worker));
        let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n", &[b'x'; VALUE_BYTES][..], b"\r\n"].concat();
        let mut taken = 0;
        while ask(&mut worker, writer, &set) == b"+OK\r\n" {
            taken += 1;
        }
        assert!((VALUES - 1..=VALUES + 1).contains(&taken), "{taken}");
        assert_eq!(ask(&mut worker, other, DEL), b"");
        assert_eq!(ask(&mut worker, reader, STRLEN), b":1048576\r\n");
        // No thread stands inside the gate, either.
        shared.engine.gate.closed(|_| ());
        assert_eq!(shared.postpones(worker.now_ms), Some(false));
        drop(go_on);
        while shared.engine.journal.is_full() {
            std::thread::yield_now();
        }
        while worker.waits.paused_count() == 2 {
            worker.inbox.note();
            worker.read_mail();
        }
        worker.process_ready();
        worker.leave();
        assert_eq!(ask(&mut worker, writer, b""), b"+OK\r\n");
        assert_eq!(ask(&mut worker, other, b""), b":1\r\n");
        assert_eq!(ask(&mut worker, reader, STRLEN), b":0\r\n");
        assert_eq!(shared.postpones(worker.now_ms), None);
        assert!(shared.storage().flush_log(&martlet_engine::Outside::of_background_thread()));
        done.send(()).unwrap();
    });
    // A thread that waits with a lock waits for ever.
    let result = ended.recv_timeout(Duration::from_secs(60));
    assert!(result.is_ok() || serving.is_finished(), "somebody waits for the disk");
    serving.join().unwrap();
}
