//! The modules of Redis 8 whose commands this server has built in, as clients see them in MODULE LIST, INFO,
//! HELLO and COMMAND DOCS. A command names its module by its group.

/// A module of Redis 8.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// The name in MODULE LIST.
    pub name: &'static str,
    /// The version in MODULE LIST: two digits each for minor version and patch. 0 while clients are not shown
    /// the module: a client that sees one takes all of its commands for granted.
    pub version: u32,
    /// The options that INFO tells.
    pub options: &'static str,
}

/// JSON documents.
pub static JSON: Module = Module { name: "ReJSON", version: 80_600, options: "handle-io-errors" };

/// Bloom and cuckoo filters, Count-Min sketches, Top-K, t-digest.
pub static SKETCHES: Module = Module { name: "bf", version: 80_600, options: "" };

/// Time series.
pub static TIME_SERIES: Module = Module { name: "timeseries", version: 80_600, options: "handle-io-errors" };

/// Vector sets; Redis has given them version 1 from the start.
pub static VECTOR_SETS: Module =
    Module { name: "vectorset", version: 1, options: "handle-io-errors|handle-repl-async-load" };

/// Search. Libraries ask for 2.6 at least (RedisVL, LangChain).
pub static SEARCH: Module = Module { name: "search", version: 80_600, options: "handle-io-errors" };

/// What runs scripts, a module in Valkey.
pub static LUA: Module =
    Module { name: "lua", version: 1, options: "handle-repl-async-load|handle-atomic-slot-migration" };
