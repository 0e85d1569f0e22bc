//! Cuts for receivers of bytes, and their places in the stream of commands.

use martlet_keyspace::{ExpiryChange, Key};

use super::*;
use crate::host::StreamPlace;
use crate::load::{Loaded, Source as Bytes, load};
use crate::testing;

/// A server of this many threads, with its keys.
fn server(threads: usize) -> (Storage, Keys) {
    let settings = testing::settings(std::path::Path::new("/"));
    let (storage, _) = testing::server(settings, threads, Arc::new(martlet_base::disk::RealDisk));
    storage.start_threads().unwrap();
    (storage, testing::keys(storage))
}

fn set(storage: Storage, keys: &mut Keys, numbers: std::ops::Range<u32>) {
    keys.alone(|keys| {
        for number in numbers {
            keys.set_str(&Key::new(&number.to_le_bytes()), b"value", ExpiryChange::Clear);
            storage.engine.journal.append(0, b"*1\r\n$4\r\nPING\r\n");
        }
    });
}

fn cut(storage: Storage, keys: &mut Keys) -> Cut {
    let settings = storage.host.settings();
    keys.alone(|keys| {
        let totals = totals(keys, settings.handlers.databases);
        Cut::make(storage, keys, Header::of_file(storage, &settings, &totals).unwrap(), totals, false)
    })
}

fn read(bytes: Vec<u8>) -> Loaded {
    let (storage, mut keys) = server(1);
    keys.alone(|keys| {
        let source = Bytes { len: bytes.len() as u64, reader: Box::new(io::Cursor::new(bytes)), offset: 0 };
        load(storage, keys, &storage.host.settings(), source, false).unwrap()
    })
}

fn follow(storage: Storage) {
    let journal = &storage.engine.journal;
    journal.open().unwrap();
    journal.follow(Follower::Replicas, true);
}

#[test]
fn a_cut_goes_to_any_writer_with_its_place_in_the_stream() {
    let (storage, mut keys) = server(2);
    let journal = &storage.engine.journal;
    follow(storage);
    journal.set_backlog(1 << 20);
    set(storage, &mut keys, 0..3000);
    let first = cut(storage, &mut keys);
    set(storage, &mut keys, 2000..5000);
    // SELECT 0, and behind the cut once more.
    let (select, commands) = (23, 3000 * 14);
    let bytes = write_cut(storage, Vec::new(), &first).unwrap();
    assert_eq!((first.keys(), first.written.load(Ordering::Relaxed)), (3000, 3000));
    let loaded = read(bytes);
    let id = storage.host.stream().unwrap().id;
    assert_eq!(loaded.keys, 3000);
    assert_eq!(loaded.place, Some(StreamPlace { id, offset: select + commands, db: 0 }));
    let second = cut(storage, &mut keys);
    let place = read(write_cut(storage, Vec::new(), &second).unwrap()).place.unwrap();
    assert_eq!(place.offset, 2 * (select + commands));
    // A replica that has loaded the first continues with a record that selects its database.
    let reader =
        journal.attach(martlet_journal::stream::Audience::Replicas, Some(select + commands), None).unwrap();
    assert!(reader.next().unwrap().unwrap().starts_with(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n"));
}

#[test]
fn a_file_that_no_replica_may_continue_from_tells_no_place() {
    let (storage, mut keys) = server(1);
    set(storage, &mut keys, 0..10);
    let alone = cut(storage, &mut keys);
    assert_eq!(read(write_cut(storage, Vec::new(), &alone).unwrap()).place, None);
    follow(storage);
    let settings = storage.host.settings();
    let base = keys
        .alone(|keys| Cut::make(storage, keys, Header::of_base(storage, &settings, &[]), Vec::new(), false));
    assert_eq!(read(write_cut(storage, Vec::new(), &base).unwrap()).place, None);
}

/// Takes this many bytes.
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
    let (storage, mut keys) = server(2);
    set(storage, &mut keys, 0..5000);
    for room in [0, 4000] {
        let refused = cut(storage, &mut keys);
        let error = write_cut(storage, Refusing(room), &refused).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        let cancelled = cut(storage, &mut keys);
        cancelled.is_cancelled.store(true, Ordering::Relaxed);
        let error = write_cut(storage, Vec::new(), &cancelled).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }
    let whole = cut(storage, &mut keys);
    assert_eq!(read(write_cut(storage, Vec::new(), &whole).unwrap()).keys, 5000);
}

/// Each kind of receiver gets the lowest version that it reads and that holds the data.
#[test]
fn receivers_get_what_they_read() {
    use Readable::{Any, NewestValkey, Redis7, Valkey};
    let settings = testing::settings(std::path::Path::new("/"));
    let of = |kind: martlet_keyspace::Kind, version: u16| {
        let mut totals = Totals::default();
        totals.require(kind, version, 1);
        [totals]
    };
    let (plain, timed) = (Totals::default(), of(martlet_keyspace::Kind::Hash, martlet_values::VERSION_TIMED));
    let arrays = of(martlet_keyspace::Kind::Array, martlet_values::VERSION_ARRAYS);
    let choose = |asked: Option<u16>, totals: &[Totals], readable| {
        version_for(&Settings { rdb_version: asked, ..settings.clone() }, totals, false, readable)
    };
    for readable in [Any, Redis7, Valkey] {
        assert_eq!(choose(None, std::slice::from_ref(&plain), readable), Ok(10), "{readable:?}");
        assert_eq!(choose(Some(9), std::slice::from_ref(&plain), readable), Ok(9), "{readable:?}");
    }
    assert_eq!([Any, Valkey].map(|readable| choose(None, &timed, readable)), [Ok(12), Ok(80)]);
    // A version that is asked for and that the receiver does not read, or that does not hold the data.
    assert_eq!(choose(Some(12), std::slice::from_ref(&plain), Valkey), Ok(10));
    assert_eq!(choose(Some(80), &timed, Any), Ok(80));
    assert_eq!(choose(Some(11), &timed, Valkey), Ok(80));
    assert_eq!(
        choose(None, &timed, Redis7).unwrap_err(),
        "it reads RDB versions up to 11, and none of them holds hashes whose fields expire"
    );
    let none = "it reads RDB versions up to 11 and 80, and none of them holds arrays";
    assert_eq!(choose(None, &arrays, Valkey).unwrap_err(), none);
    assert_eq!(choose(None, &arrays, Any), Ok(14));
    // Path hashes are Valkey 9.2's; beside values that only Redis has they take a form of their own.
    let paths = of(martlet_keyspace::Kind::PathHash, martlet_values::VERSION_PATH_HASHES);
    assert_eq!([Any, NewestValkey].map(|readable| choose(None, &paths, readable)), [Ok(81), Ok(81)]);
    let none = "it reads RDB versions up to 11 and 80, and none of them holds path hashes";
    assert_eq!(choose(None, &paths, Valkey).unwrap_err(), none);
    let [both, times] = [&arrays, &timed].map(|other| [paths[0].clone(), other[0].clone()]);
    assert_eq!([Any, NewestValkey].map(|readable| choose(None, &times, readable)), [Ok(81), Ok(81)]);
    assert_eq!(choose(None, &both, Any), Ok(14));
    let none = "it reads RDB versions up to 11, 80 and 81, and none of them holds arrays";
    assert_eq!(choose(None, &both, NewestValkey).unwrap_err(), none);
    let asked =
        |version| super::version(&Settings { rdb_version: version, ..settings.clone() }, &both, false);
    assert_eq!(asked(None), Ok(14));
    assert!(asked(Some(17)).unwrap_err().contains("path hashes, which only versions from 81 on hold"));
    assert!(asked(Some(81)).unwrap_err().contains("arrays, which only versions from 14 to 17 hold"));
}
