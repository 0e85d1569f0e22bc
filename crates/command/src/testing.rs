//! A fixture for tests without a server: runs requests through the command table against a fresh engine.
//!
//! Invariant: a request goes the way that the server takes: it is looked up in [`FAMILIES`], its arity is
//! checked, its keys are found by the spec alone, their shards are locked while the handler runs and released
//! after it. A handler that fails must have left the data alone, and one that only reads must not have
//! changed anything.
//!
//! ```ignore
//! let mut t = Fixture::new();
//! assert_eq!(t.run("SET k v EX 10"), "+OK");
//! assert_eq!(t.run("MGET k missing"), r#"["v" nil]"#);
//! assert_eq!(t.effects(), ["SET k v PXAT 1700000010000"]);
//! ```

pub mod generate;

use std::sync::Mutex;

use martlet_base::random::Random;
use martlet_base::sync::lock;
use martlet_engine::{Engine, Keys};
use martlet_journal::effects;
use martlet_protocol::quote;
use martlet_protocol::reply::Reply;
use martlet_protocol::request::{Args, OwnedArgs, Partial, RequestLimits, parse};
use martlet_spec::{Command, Error, Flags};

use crate::context::{Block, Settings};
use crate::fieldset::Fieldsets;
use crate::run::{Request, run};
use crate::{FAMILIES, Handler};

/// When every fixture's time starts, Unix milliseconds.
pub const START_MS: i64 = 1_700_000_000_000;

/// Engines that no fixture uses now: making one is dear, and one must live forever.
static ENGINES: Mutex<Vec<&'static Engine>> = Mutex::new(Vec::new());

/// A client with a separate keyspace, at a time that stands still until [`Fixture::advance_ms`].
pub struct Fixture {
    /// The view of the keyspace; its `db`, `touch` and the like may be set, and nothing is held between
    /// requests.
    pub keys: Keys,
    /// Settings that handlers see.
    pub settings: Settings,
    /// The protocol version of the replies.
    pub resp3: bool,
    /// As inside MULTI: blocking commands answer at once.
    pub deny_blocking: bool,
    /// The client's prepared field sets.
    pub fieldsets: Fieldsets,
    /// The wait of the last request, if it blocked.
    pub block: Option<Block>,
    /// The known commands.
    pub families: Vec<&'static [&'static Command<Handler>]>,
    /// How many changes the last request made.
    pub dirty: u64,
    effects: Vec<String>,
    events: Vec<String>,
}

impl Default for Fixture {
    fn default() -> Self {
        Fixture::new()
    }
}

impl Fixture {
    /// An empty keyspace.
    pub fn new() -> Fixture {
        let spare = lock(&ENGINES).pop();
        let engine = match spare {
            Some(engine) => engine,
            None => Box::leak(Box::new(Engine::new(1).expect("a background thread"))),
        };
        let mut keys = Keys::new(engine, 0, Random::seeded(42));
        keys.see(martlet_engine::View { now_ms: START_MS, ..keys.view() });
        keys.effects.recording = true;
        keys.effects.wanted_events = u32::MAX;
        Fixture {
            keys,
            settings: Settings::default(),
            resp3: false,
            deny_blocking: false,
            fieldsets: Fieldsets::default(),
            block: None,
            families: FAMILIES.to_vec(),
            dirty: 0,
            effects: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Runs a request written as a line (words may be quoted as in redis-cli) and shows its reply; see
    /// [`show`].
    pub fn run(&mut self, line: &str) -> String {
        let words = quote::split(line.as_bytes()).expect("balanced quotes");
        show(&self.run_args(&words))
    }

    /// Runs a request given as its arguments; the reply's bytes.
    pub fn run_args<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        let owned = OwnedArgs::from_slices(args.iter().map(|a| a.as_ref()));
        let mut reply = Reply::new(Vec::new(), self.resp3);
        self.block = None;
        self.keys.dirty = 0;
        let args = owned.view();
        let outcome = match find(&self.families, &args) {
            Ok(command) => self.execute(command, args, &mut reply),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            assert_eq!(self.keys.dirty, 0, "{args:?} failed after it had changed data");
            reply.error(error.to_bytes());
        }
        self.collect();
        reply.into_bytes()
    }

    fn execute(
        &mut self,
        command: &Command<Handler>,
        args: Args<'_>,
        reply: &mut Reply,
    ) -> Result<(), Error> {
        let spec = &command.spec;
        let Some(handler) = command.handler.filter(|_| spec.takes(args.len())) else {
            return Err(Error::Arity(spec.full_name));
        };
        match crate::shards(spec, &args) {
            None => self.keys.engine().gate.closed(|alone| self.keys.lock_all_shards(alone)),
            Some(shards) => self.keys.lock_shards(shards),
        }
        let request = Request {
            args,
            settings: &self.settings,
            first_key: None,
            reads_any_key: true,
            may_read_key: None,
            deny_blocking: self.deny_blocking,
            fieldsets: &mut self.fieldsets,
        };
        let view = self.keys.view();
        let outcome = run(handler, &mut self.keys, view, reply, request);
        self.keys.release();
        if !spec.flags.has(Flags::WRITE) && !spec.flags.has(Flags::MAY_REPLICATE) {
            assert_eq!(self.keys.dirty, 0, "{args:?} is no write command but changed data");
        }
        self.block = outcome.map_err(|error| *error)?.map(|block| *block);
        Ok(())
    }

    fn collect(&mut self) {
        let text = |words: &mut dyn Iterator<Item = &[u8]>| {
            words.map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>().join(" ")
        };
        self.dirty = self.keys.dirty;
        self.effects.clear();
        let pending = self.keys.effects.pending();
        if let Some((tag, payload)) = pending.record() {
            for effect in effects(tag, payload) {
                let (mut partial, mut spans) = (Partial::default(), Vec::new());
                parse(effect.command, 0, &RequestLimits::default(), &mut partial, &mut spans).expect("RESP");
                self.effects.push(text(&mut Args::new(effect.command, &spans).iter()));
            }
        }
        pending.clear();
        let events = self.keys.effects.take_news().events;
        self.events =
            events.iter().map(|e| format!("{} {}", e.name, String::from_utf8_lossy(&e.key))).collect();
    }

    /// The journal's records of the last request: `DEL KEY` for each key found expired, `HDEL KEY FIELD` for
    /// each field of a hash, then the commands that stand for the request, or the request itself if it
    /// changed anything and no others were recorded.
    pub fn effects(&self) -> &[String] {
        &self.effects
    }

    /// The last request's key events, each as `NAME KEY`.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Lets time pass. Keys that are due then are still there, until they are met.
    pub fn advance_ms(&mut self, ms: i64) {
        self.keys.see(martlet_engine::View { now_ms: self.keys.now_ms() + ms, ..self.keys.view() });
    }

    /// Deletes all keys that are due, as the server's threads do in time.
    pub fn expire_due(&mut self) {
        for shard in 0..martlet_base::limits::SHARD_COUNT {
            self.keys.with_shard(shard, |keys| while keys.expire_due(shard, 64, |_| {}) {});
        }
    }
}

impl Fixture {
    /// The counted sizes are those of the keys.
    fn check_sizes(&mut self) {
        for shard in 0..martlet_base::limits::SHARD_COUNT {
            self.keys.with_shard(shard, |keys| {
                let shard = &keys.shard(shard).keys;
                for db in shard.used().map(|index| shard.db(index)) {
                    assert_eq!(
                        db.sizes(),
                        Some(&db.iter().collect()),
                        "in shard of {:?}",
                        db.iter().next().map(|e| e.key())
                    );
                }
            });
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.check_sizes();
        self.keys.alone(|keys| keys.flush(None, false));
        self.keys.engine().lazy_free.wait();
        let mut engines = lock(&ENGINES);
        engines.push(self.keys.engine());
    }
}

/// The command that a request names.
fn find(
    families: &[&'static [&'static Command<Handler>]],
    args: &Args<'_>,
) -> Result<&'static Command<Handler>, Error> {
    let is = |name: &str, at: usize| args.at(at).eq_ignore_ascii_case(name.as_bytes());
    let all = families.iter().flat_map(|family| family.iter());
    let Some(command) = all.copied().find(|c| is(c.spec.name, 0)) else {
        return Err(Error::Text(format!("ERR unknown command '{}'", String::from_utf8_lossy(args.at(0)))));
    };
    if command.subcommands.is_empty() || args.len() < 2 {
        return Ok(command);
    }
    command.subcommands.iter().copied().find(|c| is(c.spec.name, 1)).ok_or_else(|| {
        Error::Text(format!(
            "ERR unknown subcommand '{}'. Try {} HELP.",
            String::from_utf8_lossy(args.at(1)),
            command.spec.name.to_uppercase()
        ))
    })
}

/// Replies as readable text: `+OK`, `-ERR …`, `:1`, `"bulk"` (escaped), `nil`, `nil-array`, `[a b]`, `~[a b]`
/// for sets, `{k v}` for maps, `,1.5`, `#t`, `(123`, `=txt:…`; several replies, or none, separated by spaces.
pub fn show(bytes: &[u8]) -> String {
    let mut rest = bytes;
    let mut shown = Vec::new();
    while !rest.is_empty() {
        shown.push(show_one(&mut rest));
    }
    shown.join(" ")
}

fn take_line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.windows(2).position(|w| w == b"\r\n").expect("a line ends in CRLF");
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    line
}

fn show_one(rest: &mut &[u8]) -> String {
    let line = take_line(rest);
    let text = String::from_utf8_lossy(line).into_owned();
    let number = || text[1..].parse::<i64>().expect("a length");
    let many =
        |count: i64, rest: &mut &[u8]| (0..count).map(|_| show_one(rest)).collect::<Vec<_>>().join(" ");
    match line[0] {
        b'+' | b'-' | b':' | b',' | b'#' | b'(' => text,
        b'_' => "nil".into(),
        b'$' | b'=' => {
            let Ok(len) = usize::try_from(number()) else { return "nil".into() };
            let body = rest[..len].escape_ascii().to_string();
            *rest = &rest[len + 2..];
            if line[0] == b'$' { format!("\"{body}\"") } else { format!("={body}") }
        }
        b'*' if number() < 0 => "nil-array".into(),
        b'*' => format!("[{}]", many(number(), rest)),
        b'>' => format!(">[{}]", many(number(), rest)),
        b'~' => format!("~[{}]", many(number(), rest)),
        b'%' => format!("{{{}}}", many(number() * 2, rest)),
        other => panic!("no reply begins with {:?}", char::from(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_shown() {
        let reply = b"*4\r\n$1\r\n\n\r\n$-1\r\n*-1\r\n%1\r\n:1\r\n,1.5\r\n_\r\n";
        assert_eq!(show(reply), r#"["\n" nil nil-array {:1 ,1.5}] nil"#);
    }

    #[test]
    fn requests_are_checked() {
        let mut t = Fixture::new();
        assert_eq!(t.run("GET"), "-ERR wrong number of arguments for 'get' command");
        assert_eq!(t.run("NOSUCH"), "-ERR unknown command 'NOSUCH'");
        assert_eq!(t.run("get missing"), "nil");
        assert_eq!(t.events(), ["keymiss missing"]);
        assert!(t.effects().is_empty());
    }

    #[test]
    fn every_command_has_one_entry_in_lower_case() {
        let mut names: Vec<_> = FAMILIES.iter().flat_map(|f| f.iter()).map(|c| c.spec.full_name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|n| n.bytes().all(|b| !b.is_ascii_uppercase())));
    }
}
