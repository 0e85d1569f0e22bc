//! The rows of the table: every command that Redis has too, as requests over data of known shapes.
//!
//! A request is a template of the load tester's notation. `N*(…)` stands for N times what the parentheses
//! hold, with `#` replaced by 0 to N-1.

mod collections;
mod keys;
mod server;
mod strings;
mod zsets;

/// Requests that are sent before a reading, or that build a group's data.
pub struct Before {
    /// How often.
    pub times: u64,
    /// The request, by template.
    pub template: &'static str,
}

/// Rows over the same data, with a pair of servers of their own.
pub struct Group {
    /// What `--groups` selects.
    pub name: &'static str,
    /// Arguments of both servers beyond those of all groups.
    pub arguments: &'static [&'static str],
    /// What builds the data.
    pub fill: &'static [Before],
    /// How long the servers are left alone before it is used, in milliseconds.
    pub settling_ms: u64,
    /// The rows.
    pub rows: &'static [Row],
}

/// A line of the table.
pub struct Row {
    /// Its name; unique.
    pub name: &'static str,
    /// How often the requests are sent in a reading, each time the next one of the template.
    pub times: u64,
    /// What the CPU time is divided by, if not by `times`.
    pub per: u64,
    /// The requests.
    pub template: &'static str,
    /// Sent before each reading, and not measured.
    pub before: &'static [Before],
    /// How long the server is left alone before its clock is read, in milliseconds: work that it does after
    /// the reply counts too.
    pub idle_ms: u64,
    /// The way of the measurement.
    pub kind: Kind,
    /// Whether its replies are errors.
    pub fails: bool,
    /// What a higher cost than Redis' buys, or what its floor is.
    pub note: &'static str,
}

/// The way of a measurement.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Requests of one connection, pipelined.
    Pipelined,
    /// RESTORE of the peer's DUMP of this key.
    Restore(&'static str),
    /// FUNCTION RESTORE of the peer's FUNCTION DUMP.
    RestoreFunctions,
    /// As `Pipelined`, beside so many other connections, each of which has sent these requests before.
    Beside(usize, &'static str),
    /// Each of so many connections sends one request.
    OfEach(usize),
    /// A connection is opened for each request.
    Connect,
}

impl Row {
    /// With other requests before each reading.
    const fn before(self, before: &'static [Before]) -> Row {
        Row { before, ..self }
    }

    /// With time for work after the reply.
    const fn idle(self, idle_ms: u64) -> Row {
        Row { idle_ms, ..self }
    }

    /// Divided by another number.
    const fn per(self, per: u64) -> Row {
        Row { per, ..self }
    }

    /// With so many requests that count together.
    const fn sends(self, times: u64) -> Row {
        Row { times, ..self }
    }

    /// Measured in another way.
    const fn by(self, kind: Kind) -> Row {
        Row { kind, ..self }
    }

    /// Answered with errors.
    const fn fails(self) -> Row {
        Row { fails: true, ..self }
    }

    /// With a remark that the table shows if Redis needs less.
    const fn note(self, note: &'static str) -> Row {
        Row { note, ..self }
    }
}

/// A row.
const fn row(name: &'static str, times: u64, template: &'static str) -> Row {
    Row {
        name,
        times,
        per: times,
        template,
        before: &[],
        idle_ms: 0,
        kind: Kind::Pipelined,
        fails: false,
        note: "",
    }
}

/// A row that is named by its request.
const fn of(times: u64, template: &'static str) -> Row {
    row(template, times, template)
}

/// Requests before others.
const fn first(times: u64, template: &'static str) -> Before {
    Before { times, template }
}

const PLAIN: Group = Group { name: "", arguments: &[], fill: &[], settling_ms: 0, rows: &[] };

/// All groups.
pub const GROUPS: &[Group] = &[
    strings::STRINGS,
    strings::BITMAPS,
    strings::LARGE,
    collections::LISTS,
    collections::SETS,
    collections::HASHES,
    zsets::SORTED_SETS,
    zsets::GEO,
    zsets::STREAMS,
    keys::SMALL,
    keys::KEYSPACE,
    keys::PAYLOADS,
    keys::FILES,
    server::CONNECTIONS,
    server::WAITING,
    server::PUBSUB,
    server::SCRIPTS,
    server::ADMIN,
    server::CLUSTER,
];

/// Commands that no row measures, by the reason.
pub const UNMEASURED: &[(&str, &[&str])] = &[
    ("its reply is a constant text", HELP),
    (
        "it starts or ends a process, a link or a file; ./x persistence-cost and results/replication.md have \
         its work",
        &[
            "bgsave",
            "bgrewriteaof",
            "shutdown",
            "sync",
            "psync",
            "replconf",
            "replicaof",
            "slaveof",
            "failover",
            "migrate",
            "cluster|meet",
            "cluster|replicate",
            "cluster|failover",
            "cluster|forget",
            "cluster|reset",
            "cluster|replicas",
            "cluster|slaves",
            "cluster|setslot",
            "cluster|bumpepoch",
            "cluster|set-config-epoch",
            "module|load",
            "module|loadex",
            "module|unload",
            "acl|load",
            "acl|save",
            "config|rewrite",
            "quit",
        ],
    ),
    (
        "it suspends clients, or what it does is seen on other connections only",
        &[
            "client|pause",
            "client|unpause",
            "client|reply",
            "monitor",
            "client|caching",
            "script|kill",
            "function|kill",
            "script|debug",
        ],
    ),
    ("it tests the server it runs on", &["pfdebug", "pfselftest", "memory|malloc-stats"]),
];

const HELP: &[&str] = &[
    "acl|help",
    "client|help",
    "cluster|help",
    "command|help",
    "config|help",
    "function|help",
    "latency|help",
    "memory|help",
    "module|help",
    "object|help",
    "pubsub|help",
    "script|help",
    "slowlog|help",
    "xgroup|help",
    "xinfo|help",
];
