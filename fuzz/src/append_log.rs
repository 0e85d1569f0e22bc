//! Files of commands and manifests of any bytes: no panic, no room for a length that is only claimed, the
//! same whatever pieces the file comes in, read items are written and read again, and it is replayed into a
//! keyspace as at the start.

use std::cell::RefCell;
use std::io::Read;

use martlet_base::clock::Clock;
use martlet_base::random::Random;
use martlet_command::{Control, Presentation, Settings};
use martlet_engine::{Engine, Keys};
use martlet_journal::aof::{CommandReader, Item, Manifest};
use martlet_journal::encode;
use martlet_persistence::aof::replay::Replay;
use martlet_protocol::request::{Args, OwnedArgs};
use martlet_server::registry::Registry;
use martlet_server::scripting::libraries::Libraries;

/// Longest string: a command may ask for one of that length.
const STRING_MAX_BYTES: usize = 1 << 20;

/// The input is a file of commands, and a manifest.
pub fn check(data: &[u8]) {
    let (commands, whole, error) = read(data);
    KEYSPACE.with_borrow_mut(|keyspace| keyspace.replay(&commands));
    assert!(whole <= data.len() as u64 && (error.is_none() == (whole == data.len() as u64)));
    assert_eq!(read(Slow(data)), (commands.clone(), whole, error));
    let mut again = Vec::new();
    for command in &commands {
        encode(&mut again, command.iter().map(Vec::as_slice));
    }
    assert_eq!(read(&again[..]), (commands, again.len() as u64, None));
    let text = String::from_utf8_lossy(data);
    if let Ok(manifest) = Manifest::parse(&text)
        && !(manifest.is_empty() && manifest.history.is_empty())
    {
        let text = manifest.to_text();
        // The writer of a manifest refuses one whose quoted names make lines that are too long.
        let is_readable = text.split_inclusive('\n').all(|line| line.len() <= 1024);
        assert!(!is_readable || Manifest::parse(&text) == Ok(manifest), "{text}");
    }
}

type Command = Vec<Vec<u8>>;

/// What commands are replayed into.
struct Keyspace {
    registry: &'static Registry,
    keys: Keys,
}

thread_local! {
    static KEYSPACE: RefCell<Keyspace> = RefCell::new(Keyspace::new());
}

impl Keyspace {
    fn new() -> Keyspace {
        let registry =
            Box::leak(Box::new(martlet_server::commands::registry(&[]).expect("the table is sound")));
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).expect("threads can be started")));
        Keyspace { registry, keys: Keys::new(engine, 0, Random::seeded(1)) }
    }

    /// Runs the commands, with everything held, in an empty keyspace.
    fn replay(&mut self, commands: &[Command]) {
        let settings = Settings { string_max_bytes: STRING_MAX_BYTES, ..Settings::default() };
        let libraries = Libraries::new(Clock::real(), Presentation::Redis);
        let elsewhere = |control: Control, args: &Args<'_>| match control {
            Control::ChangeLibraries(change) => {
                Some(martlet_persistence::Libraries::replay(&libraries, change, args))
            }
            // There is no cluster.
            Control::TrackSlots => Some(Ok(())),
            _ => None,
        };
        let mut replay = Replay::new(self.registry, &elsewhere, &settings, 1_700_000_000_000);
        self.keys.alone(|keys| {
            for command in commands.iter().filter(|command| !command.is_empty()) {
                let args = OwnedArgs::from_slices(command.iter().map(Vec::as_slice));
                // A command that cannot run is reported at the start.
                let _ = replay.run(keys, &args.view(), &mut |keys, work| work(keys));
            }
            // Nothing stays for the end, where the search for leaks takes no tagged pointer for one.
            keys.flush(None, false);
            keys.engine().lazy_free.wait();
        });
    }
}

/// Commands, the offset behind them, and why the rest cannot be read.
fn read(file: impl Read) -> (Vec<Command>, u64, Option<String>) {
    let mut reader = CommandReader::new(file, 0);
    let mut commands = Vec::new();
    let error = loop {
        match reader.read() {
            Ok(Some(Item::Command(args))) => commands.push(args.iter().map(<[u8]>::to_vec).collect()),
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    (commands, reader.offset(), error)
}

/// Gives a byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(1);
        self.0.read(&mut buffer[..len])
    }
}
