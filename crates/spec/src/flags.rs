//! Sets of bits that an entry has: flags, ACL categories, operations on keys. Each bit has the name that
//! COMMAND gives it, or none.

use std::ops::BitOr;

macro_rules! bits {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident = $value:expr, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            /// No bit.
            pub const NONE: $name = $name(0);
            $($(#[$bit_doc])* pub const $bit: $name = $name(1 << $value);)*

            /// Each bit with the name that COMMAND gives it; the empty name for bits that it does not tell.
            pub const NAMES: &'static [($name, &'static str)] = &[$(($name::$bit, $text)),*];

            /// Whether all bits of `other` are set.
            #[inline]
            pub const fn has(self, other: $name) -> bool {
                self.0 & other.0 == other.0
            }

            /// Both sets of bits.
            pub const fn with(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }

            /// The bits of this set that are not in the other.
            pub const fn without(self, other: $name) -> $name {
                $name(self.0 & !other.0)
            }

            /// The names of the bits set, in the table's order.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(bit, name)| self.has(*bit) && !name.is_empty()).map(|(_, name)| *name)
            }
        }

        impl BitOr for $name {
            type Output = $name;
            fn bitor(self, other: $name) -> $name {
                self.with(other)
            }
        }
    };
}

bits! {
    /// What kind of command it is.
    Flags {
        /// May change data.
        WRITE = 0, "write";
        /// Only reads data.
        READONLY = 1, "readonly";
        /// Refused when memory is full.
        DENYOOM = 2, "denyoom";
        /// Administration.
        ADMIN = 3, "admin";
        /// Publish and subscribe.
        PUBSUB = 4, "pubsub";
        /// Not from scripts.
        NOSCRIPT = 5, "noscript";
        /// May block the client.
        BLOCKING = 6, "blocking";
        /// Allowed while data is loaded.
        LOADING = 7, "loading";
        /// Allowed on a replica without its primary.
        STALE = 8, "stale";
        /// Not shown to MONITOR.
        SKIP_MONITOR = 9, "skip_monitor";
        /// Not in the slow log.
        SKIP_SLOWLOG = 10, "skip_slowlog";
        /// Accepted for a slot that is being imported.
        ASKING = 11, "asking";
        /// Constant or logarithmic time.
        FAST = 12, "fast";
        /// Allowed before authentication.
        NO_AUTH = 13, "no_auth";
        /// May be sent to replicas although it does not write.
        MAY_REPLICATE = 14, "";
        /// Valid without any key although it takes keys.
        NO_MANDATORY_KEYS = 15, "no_mandatory_keys";
        /// Not while data is loaded asynchronously.
        NO_ASYNC_LOADING = 16, "no_async_loading";
        /// Not inside MULTI.
        NO_MULTI = 17, "no_multi";
        /// Allowed while a script is busy.
        ALLOW_BUSY = 18, "allow_busy";
        /// Keys are not at fixed positions.
        MOVABLE_KEYS = 19, "movablekeys";
        /// Runs at once inside MULTI, where others are queued.
        NOT_QUEUED = 20, "";
        /// Allowed to a RESP2 client that has subscriptions.
        SUBSCRIBED = 21, "";
        /// Refused like a write while the disk takes none.
        NEEDS_DISK = 22, "";
        /// CLIENT NO-TOUCH means nothing to it.
        IGNORES_NO_TOUCH = 23, "";
        /// Runs behind the closed gate, with all shards held.
        EXCLUSIVE = 24, "";
        /// Walks: begins with nothing locked, and locks the shards that it looks at.
        WALK = 25, "";
        /// CLIENT CACHING stays in force for the command after it.
        KEEPS_CACHING = 26, "";
        /// Allowed by `enable-debug-command` only. Its subcommands are no commands to clients: COMMAND does
        /// not list them, and statistics and errors name the container.
        DEBUG = 27, "";
        /// For the server's own tests; COMMAND DOCS says so.
        SYSTEM = 28, "";
        /// Moves keys between nodes of a cluster: it is run where the slot is open, whichever keys are there.
        MOVES_KEYS = 29, "";
        /// Allowed by `enable-module-command` only.
        LOADS_MODULES = 30, "";
        /// A command of a module in Redis ([`Group::Module`](crate::Group::Module)).
        MODULE = 31, "module";
    }
}

bits! {
    /// ACL categories.
    Acl {
        /// @keyspace
        KEYSPACE = 0, "keyspace";
        /// @read
        READ = 1, "read";
        /// @write
        WRITE = 2, "write";
        /// @set
        SET = 3, "set";
        /// @sortedset
        SORTED_SET = 4, "sortedset";
        /// @list
        LIST = 5, "list";
        /// @hash
        HASH = 6, "hash";
        /// @string
        STRING = 7, "string";
        /// @bitmap
        BITMAP = 8, "bitmap";
        /// @hyperloglog
        HYPERLOGLOG = 9, "hyperloglog";
        /// @geo
        GEO = 10, "geo";
        /// @stream
        STREAM = 11, "stream";
        /// @pubsub
        PUBSUB = 12, "pubsub";
        /// @admin
        ADMIN = 13, "admin";
        /// @fast
        FAST = 14, "fast";
        /// @slow
        SLOW = 15, "slow";
        /// @blocking
        BLOCKING = 16, "blocking";
        /// @dangerous
        DANGEROUS = 17, "dangerous";
        /// @connection
        CONNECTION = 18, "connection";
        /// @transaction
        TRANSACTION = 19, "transaction";
        /// @scripting
        SCRIPTING = 20, "scripting";
        /// @array
        ARRAY = 21, "array";
        /// @json
        JSON = 22, "json";
        /// @bloom
        BLOOM = 23, "bloom";
        /// @cuckoo
        CUCKOO = 24, "cuckoo";
        /// @cms
        CMS = 25, "cms";
        /// @topk
        TOPK = 26, "topk";
        /// @tdigest
        TDIGEST = 27, "tdigest";
        /// @timeseries
        TIMESERIES = 28, "timeseries";
        /// @pathhash
        PATHHASH = 29, "pathhash";
        /// @search
        SEARCH = 30, "search";
    }
}

bits! {
    /// A command's operations on the keys of one part of its key spec.
    KeyFlags {
        /// Reads the value without changing it.
        RO = 0, "RO";
        /// Reads and changes the value.
        RW = 1, "RW";
        /// Overwrites the value.
        OW = 2, "OW";
        /// Deletes the key.
        RM = 3, "RM";
        /// Returns or copies user data of the value.
        ACCESS = 4, "access";
        /// Changes user data of the value.
        UPDATE = 5, "update";
        /// Adds data without changing or deleting present data.
        INSERT = 6, "insert";
        /// Deletes content of the value.
        DELETE = 7, "delete";
        /// Not a key, but treated as one for routing.
        NOT_KEY = 8, "not_key";
        /// The spec may not find all keys.
        INCOMPLETE = 9, "incomplete";
        /// The flags depend on the arguments.
        VARIABLE_FLAGS = 10, "variable_flags";
    }
}
