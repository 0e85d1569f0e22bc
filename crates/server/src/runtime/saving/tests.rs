//! A worker's records while the append-only file is switched on and off.

use martlet_base::number::NumberBuffer;
use martlet_keyspace::Key;
use martlet_protocol::request::OwnedArgs;

use std::sync::Arc;

use martlet_journal::aof::SyncPolicy;
use martlet_persistence::Host;
use martlet_persistence::start;

use crate::config::{AppendFsync, Config, ConfigStore};
use crate::persistence::settings::settings;
use crate::runtime::{Shared, Worker};

const TEXT: &[u8] = b"text";

/// A server that has loaded the files of its directory.
fn server(config: &Config) -> (&'static Shared, Worker) {
    let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
    let shared = Shared::new(ConfigStore::new(config.clone()), registry, 1, None).unwrap();
    let shared: &'static Shared = Box::leak(Box::new(shared));
    start::announce(shared.storage());
    start::load_at_start(shared.storage(), &settings(config)).unwrap();
    (shared, Worker::new(shared, 0, &crate::wiring::HOOKS))
}

fn switch(shared: &'static Shared, worker: &mut Worker, on: bool) {
    shared.config.publish(Config { appendonly: on, ..(*shared.config.snapshot()).clone() });
    worker.follow_config();
    shared.engine.gate.closed(|alone| {
        worker.keys.lock_all_shards(alone);
        worker.follow_appendonly().unwrap();
        worker.keys.release();
    });
    shared.persistence.log.wait_for_rewrite();
}

fn append(worker: &mut Worker, text: &[u8]) {
    let args = OwnedArgs::from_slices([b"APPEND".as_slice(), TEXT, text]);
    worker.alone(|worker| {
        worker.keys.update_str(&Key::new(TEXT), 0..0, |bytes| bytes.extend_from_slice(text));
        worker.keys.effects.request_ended(0, &args.view(), true);
    });
    worker.leave();
}

/// A thread that waits for the gate may find that the file was switched on or off when it comes to run alone.
#[test]
fn who_runs_alone_records_by_what_is_set_then() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config { dir: directory.path().into(), appendonly: true, ..Config::default() };
    let (shared, mut worker) = server(&config);
    worker.enter();
    worker.leave();
    switch(shared, &mut worker, false);
    append(&mut worker, b"off,");
    switch(shared, &mut worker, true);
    append(&mut worker, b"on,");
    assert!(shared.storage().flush_log(&martlet_engine::Outside::of_background_thread()));
    let (_, mut reader) = server(&config);
    let text = reader.alone(|reader| {
        let text = reader.keys.read_str(&Key::new(TEXT)).unwrap();
        text.map(|text| text.bytes(&mut NumberBuffer::new()).to_vec())
    });
    assert_eq!(text.unwrap(), b"off,on,");
}

#[test]
fn files_go_by_what_was_published_last() {
    let registry = Box::leak(Box::new(crate::commands::registry(&[]).unwrap()));
    let shared = Shared::new(ConfigStore::new(Config::default()), registry, 1, None).unwrap();
    let first = Host::settings(&shared);
    assert!(Arc::ptr_eq(&first, &Host::settings(&shared)));
    shared.config.publish(Config { appendfsync: AppendFsync::Always, ..Config::default() });
    assert_eq!(
        (first.appendfsync, Host::settings(&shared).appendfsync),
        (SyncPolicy::EverySecond, SyncPolicy::Always)
    );
}
