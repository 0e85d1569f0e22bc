//! A round: its servers, and the steps in their order.

use std::fmt;

use martlet_base::random::Random;

use super::draw;
use super::setup;
use super::table::Table;
use super::values::{self, Pools, once_in, pick};

/// Connections of a round; with a replica every second one is the replica's.
pub const CONNECTIONS: usize = 6;

/// How the servers of a round are set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// A node of a cluster that has all slots.
    pub cluster: bool,
    /// A second server follows the first.
    pub replica: bool,
    /// With an append-only file.
    pub aof: bool,
    /// With so little memory that keys are evicted.
    pub evicts: bool,
    /// One thread, so that steps follow each other strictly.
    pub one_thread: bool,
    /// Small limits, so that collections change their encoding soon.
    pub small_encodings: bool,
}

impl Profile {
    const NAMES: [&str; 6] = ["cluster", "replica", "aof", "evicts", "one-thread", "small-encodings"];

    fn bits(&mut self) -> [&mut bool; 6] {
        let Profile { cluster, replica, aof, evicts, one_thread, small_encodings } = self;
        [cluster, replica, aof, evicts, one_thread, small_encodings]
    }

    /// Reads what [`fmt::Display`] writes.
    ///
    /// # Errors
    /// A word that names nothing.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let mut profile = Profile::default();
        for word in text.split_whitespace() {
            let at = Profile::NAMES.iter().position(|name| *name == word);
            *profile.bits()[at.ok_or_else(|| format!("no server is {word:?}"))?] = true;
        }
        Ok(profile)
    }

    fn draw(random: &mut Random) -> Profile {
        let mut profile = Profile::default();
        for bit in profile.bits() {
            *bit = once_in(random, 3);
        }
        profile
    }

    /// The arguments of its servers.
    pub fn arguments(&self) -> Vec<&'static str> {
        let mut all = vec!["server", "--enable-debug-command", "yes", "--enable-protected-configs", "yes"];
        all.extend(["--proto-max-bulk-len", "1mb", "--client-output-buffer-limit", "normal 64mb 0 0"]);
        all.extend([
            "--busy-reply-threshold",
            "200",
            "--io-threads",
            if self.one_thread { "1" } else { "2" },
        ]);
        all.extend(["--notify-keyspace-events", "KEA", "--repl-diskless-sync-delay", "0"]);
        if self.cluster {
            all.extend(["--cluster-enabled", "yes", "--cluster-databases", "16"]);
        }
        if self.aof {
            all.extend(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        if self.evicts {
            all.extend(["--maxmemory", "6mb", "--maxmemory-policy", "allkeys-lru"]);
        }
        if self.small_encodings {
            all.extend(["--hash-max-listpack-entries", "4", "--set-max-intset-entries", "4"]);
            all.extend(["--set-max-listpack-entries", "4", "--zset-max-listpack-entries", "4"]);
            all.extend(["--list-max-listpack-size", "4", "--stream-node-max-entries", "4"]);
        }
        all
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut copy = *self;
        let words: Vec<_> = copy
            .bits()
            .into_iter()
            .zip(Profile::NAMES)
            .filter(|(is, _)| **is)
            .map(|(_, name)| name)
            .collect();
        f.write_str(&words.join(" "))
    }
}

/// A request of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The connection's number.
    pub connection: usize,
    /// The request; none closes the connection.
    pub words: Vec<Vec<u8>>,
    /// It leaves in one write with the next one of the same connection.
    pub joins: bool,
}

/// A round.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its servers.
    pub profile: Profile,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Scripts and functions that call the command in their arguments.
const WAYS: &[[&str; 2]] = &[
    ["EVAL", setup::CALL_ANY],
    ["EVAL_RO", setup::CALL_ANY],
    ["FCALL", "call"],
    ["FCALL", "peek"],
    ["FCALL_RO", "peek"],
    ["EVAL", "redis.setresp(3) local r = redis.pcall(unpack(ARGV)) return {r, KEYS}"],
    ["EVAL", "for i = 1, 3 do redis.pcall(unpack(ARGV)) end return redis.call(unpack(ARGV))"],
];

struct Drawing<'a> {
    pools: Pools<'a>,
    random: Random,
    steps: Vec<Step>,
    /// Requests that create the keys.
    refills: Vec<Vec<String>>,
    /// The category that a connection's user has, if it is not the default one.
    categories: [Option<&'static str>; CONNECTIONS],
}

impl Plan {
    /// Draws a round of about `steps` steps.
    pub fn draw(table: &Table, seed: u64, steps: usize) -> Plan {
        let mut random = Random::seeded(seed);
        let profile = Profile::draw(&mut random);
        let mut drawing = Drawing {
            pools: Pools { table },
            random,
            steps: Vec::with_capacity(steps),
            refills: setup::requests(),
            categories: [None; CONNECTIONS],
        };
        while drawing.steps.len() < steps {
            let connection = drawing.random.below(CONNECTIONS as u64) as usize;
            drawing.some(connection);
        }
        Plan { profile, steps: drawing.steps }
    }
}

impl Drawing<'_> {
    fn push(&mut self, connection: usize, words: Vec<Vec<u8>>) {
        self.steps.push(Step { connection, words, joins: false });
    }

    fn line(&mut self, connection: usize, line: &str) {
        self.push(connection, line.split(' ').map(|word| word.as_bytes().to_vec()).collect());
    }

    fn one_of(&mut self, connection: usize, lines: &[&str]) {
        let line = pick(&mut self.random, lines);
        self.line(connection, line);
    }

    /// A request of any command, or of one that the connection's user may call.
    fn request(&mut self, connection: usize) -> Vec<Vec<u8>> {
        loop {
            let at = self.command(self.categories[connection]);
            let mut words = draw::request(&self.pools, &mut self.random, &self.pools.table.commands[at]);
            if draw::bound(&mut words, &mut self.random) {
                return words;
            }
        }
    }

    /// The place of a command in the table, mostly one of the category.
    fn command(&mut self, category: Option<&str>) -> usize {
        let commands = &self.pools.table.commands;
        let mut at = 0;
        for _ in 0..30 {
            at = self.random.below(commands.len() as u64) as usize;
            let has = |category: &str| commands[at].categories.iter().any(|one| one[1..] == *category);
            if category.is_none_or(has) {
                break;
            }
        }
        at
    }

    fn some(&mut self, connection: usize) {
        match self.random.below(20) {
            0 => self.context(connection),
            1 => self.tracking(connection),
            2 => self.transaction(connection),
            3 | 4 => self.script(connection),
            5 => self.pipeline(connection),
            6 => self.refill(connection),
            _ => {
                let words = self.request(connection);
                self.push(connection, words);
            }
        }
    }

    /// Something that a connection's later requests run under.
    fn context(&mut self, connection: usize) {
        match self.random.below(16) {
            0 => self.line(connection, "HELLO 3"),
            1 => self.line(connection, "HELLO 2"),
            2 | 3 => {
                let db = self.random.below(16);
                self.line(connection, &format!("SELECT {db}"));
            }
            4..=6 => {
                let users: Vec<_> = setup::users().collect();
                let (user, category) = &users[self.random.below(users.len() as u64) as usize];
                self.line(connection, &format!("AUTH {user} p"));
                self.categories[connection] = Some(category);
            }
            7 | 8 => {
                self.line(connection, "AUTH default x");
                self.categories[connection] = None;
            }
            9 => self.line(connection, "RESET"),
            10 => self.push(connection, Vec::new()),
            11 => self.one_of(connection, &["READONLY", "ASKING", "READWRITE", "UNWATCH"]),
            12 => self.one_of(connection, &["CLIENT NO-TOUCH ON", "CLIENT NO-EVICT ON"]),
            13 => self.one_of(connection, &["MONITOR", "SUBSCRIBE {t}ch", "PSUBSCRIBE *"]),
            14 => self.one_of(connection, &["REPLICAOF NO ONE", "CLIENT UNPAUSE", "ECHO x"]),
            _ => self.one_of(connection, &["CLIENT REPLY SKIP", "CLIENT IMPORT-SOURCE ON"]),
        }
        if matches!(self.steps.last(), Some(step) if step.words.is_empty() || step.words[0] == b"RESET") {
            self.categories[connection] = None;
        }
    }

    /// Tracking in any of its modes, then a request that may be read under it.
    fn tracking(&mut self, connection: usize) {
        let mode = pick(
            &mut self.random,
            &[
                "",
                " BCAST",
                " BCAST PREFIX {t}",
                " OPTIN",
                " OPTOUT",
                " NOLOOP",
                " BCAST NOLOOP",
                " OPTIN NOLOOP",
            ],
        );
        let redirect = match once_in(&mut self.random, 3) {
            true => format!(" REDIRECT {}", self.random.below(16)),
            false => String::new(),
        };
        match self.random.below(6) {
            0 => self.line(connection, "CLIENT TRACKING OFF"),
            _ => self.line(connection, &format!("CLIENT TRACKING ON{mode}{redirect}")),
        }
        for _ in 0..self.random.below(4) {
            if mode.contains("OPTIN") {
                self.line(connection, "CLIENT CACHING YES");
            }
            let words = self.request(connection);
            self.push(connection, words);
        }
    }

    fn transaction(&mut self, connection: usize) {
        if once_in(&mut self.random, 2) {
            let key = values::key(&mut self.random, "");
            self.push(connection, vec![b"WATCH".to_vec(), key]);
            if once_in(&mut self.random, 3) {
                let other = (connection + 2) % CONNECTIONS;
                let words = self.request(other);
                self.push(other, words);
            }
        }
        self.line(connection, "MULTI");
        for _ in 0..=self.random.below(5) {
            let words = match once_in(&mut self.random, 6) {
                true => self.wrapped(connection),
                false => self.request(connection),
            };
            self.push(connection, words);
        }
        self.one_of(connection, &["EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "EXEC", "DISCARD"]);
    }

    /// Makes one of the keys as it was at first: requests overwrite and empty them.
    fn refill(&mut self, connection: usize) {
        let at = self.random.below(self.refills.len() as u64) as usize;
        let words: Vec<_> = self.refills[at].iter().map(|word| word.clone().into_bytes()).collect();
        if let Some(key) = words.get(1).filter(|word| word.starts_with(b"{t}")) {
            self.push(connection, vec![b"DEL".to_vec(), key.clone()]);
        }
        self.push(connection, words);
    }

    /// A request that a script or a function makes, with its keys declared or not.
    fn wrapped(&mut self, connection: usize) -> Vec<Vec<u8>> {
        let request = self.request(connection);
        let way = WAYS[self.random.below(WAYS.len() as u64) as usize];
        let mut words: Vec<Vec<u8>> = way.iter().map(|word| word.as_bytes().to_vec()).collect();
        let keys: Vec<_> = request.iter().filter(|word| word.starts_with(b"{t}")).cloned().collect();
        let declared = if once_in(&mut self.random, 3) { 0 } else { keys.len() };
        words.push(declared.to_string().into_bytes());
        words.extend(keys.into_iter().take(declared));
        words.extend(request);
        words
    }

    fn script(&mut self, connection: usize) {
        let words = self.wrapped(connection);
        self.push(connection, words);
    }

    /// Some requests in one write.
    fn pipeline(&mut self, connection: usize) {
        for _ in 0..2 + self.random.below(8) {
            let words = self.request(connection);
            self.steps.push(Step { connection, words, joins: true });
        }
        self.line(connection, "PING");
    }
}
