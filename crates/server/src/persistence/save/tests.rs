//! Cuts to whoever takes bytes, and where in the stream of commands they are.

use martlet_keyspace::{ExpiryChange, Key};

use super::*;
use crate::config::ConfigStore;
use crate::persistence::load::{Loaded, Source as Bytes, StreamPlace, load};
use crate::registry::Registry;

/// A server without clients, with its keys.
fn server(threads: usize) -> (&'static Shared, Keys) {
    let registry = Box::leak(Box::new(Registry::new(&[]).unwrap()));
    let shared = Shared::new(ConfigStore::new(Config::default()), registry, threads, None).unwrap();
    let shared: &'static Shared = Box::leak(Box::new(shared));
    shared.persistence.crew.start(threads).unwrap();
    (shared, Keys::new(shared.engine, 0, martlet_base::random::Random::seeded(1)))
}

fn set(shared: &Shared, keys: &mut Keys, numbers: std::ops::Range<u32>) {
    keys.alone(|keys| {
        for number in numbers {
            keys.set_str(&Key::new(&number.to_le_bytes()), b"value", ExpiryChange::Clear);
            shared.engine.journal.append(0, b"*1\r\n$4\r\nPING\r\n");
        }
    });
}

fn cut(shared: &Shared, keys: &mut Keys) -> Cut {
    let config = shared.config.snapshot();
    keys.alone(|keys| {
        let totals = totals(keys, config.databases as usize);
        Cut::make(shared, keys, Header::of_file(&config, &totals).unwrap(), totals, false)
    })
}

fn read(bytes: Vec<u8>) -> Loaded {
    let (shared, mut keys) = server(1);
    keys.alone(|keys| {
        let source = Bytes { len: bytes.len() as u64, reader: Box::new(io::Cursor::new(bytes)), offset: 0 };
        load(shared, keys, &Config::default(), source, false).unwrap()
    })
}

fn follow(shared: &Shared) {
    let journal = &shared.engine.journal;
    journal.open().unwrap();
    journal.follow(Follower::Replicas, true);
}

#[test]
fn a_cut_goes_to_any_writer_with_its_place_in_the_stream() {
    let (shared, mut keys) = server(2);
    let journal = &shared.engine.journal;
    follow(shared);
    journal.set_backlog(1 << 20);
    set(shared, &mut keys, 0..3000);
    let first = cut(shared, &mut keys);
    set(shared, &mut keys, 2000..5000);
    // SELECT 0, and behind the cut once more.
    let (select, commands) = (23, 3000 * 14);
    let bytes = write_cut(shared, Vec::new(), &first).unwrap();
    assert_eq!((first.keys(), first.written.load(Ordering::Relaxed)), (3000, 3000));
    let loaded = read(bytes);
    let id = lock(&shared.replication_id).clone();
    assert_eq!(loaded.keys, 3000);
    assert_eq!(loaded.place, Some(StreamPlace { id, offset: select + commands, db: 0 }));
    let second = cut(shared, &mut keys);
    let place = read(write_cut(shared, Vec::new(), &second).unwrap()).place.unwrap();
    assert_eq!(place.offset, 2 * (select + commands));
    // A replica that has loaded the first goes on with what selects its database.
    let reader =
        journal.attach(martlet_journal::stream::Audience::Replicas, Some(select + commands), None).unwrap();
    assert!(reader.next().unwrap().unwrap().starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
}

#[test]
fn a_file_that_no_replica_may_continue_from_tells_no_place() {
    let (shared, mut keys) = server(1);
    set(shared, &mut keys, 0..10);
    let alone = cut(shared, &mut keys);
    assert_eq!(read(write_cut(shared, Vec::new(), &alone).unwrap()).place, None);
    follow(shared);
    let config = shared.config.snapshot();
    let base = keys.alone(|keys| Cut::make(shared, keys, Header::of_base(&config, &[]), Vec::new(), false));
    assert_eq!(read(write_cut(shared, Vec::new(), &base).unwrap()).place, None);
}

/// Takes so many bytes.
struct Refusing(usize);

impl Write for Refusing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_cut_that_nobody_took_another_can_be_made() {
    let (shared, mut keys) = server(2);
    set(shared, &mut keys, 0..5000);
    for room in [0, 4000] {
        let refused = cut(shared, &mut keys);
        let error = write_cut(shared, Refusing(room), &refused).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let cancelled = cut(shared, &mut keys);
        cancelled.is_cancelled.store(true, Ordering::Relaxed);
        let error = write_cut(shared, Vec::new(), &cancelled).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
    let whole = cut(shared, &mut keys);
    assert_eq!(read(write_cut(shared, Vec::new(), &whole).unwrap()).keys, 5000);
}
