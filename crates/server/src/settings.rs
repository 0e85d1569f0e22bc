//! What command handlers need of the configuration.

use martlet_command::Settings;
use martlet_types::hash::HashLimits;
use martlet_types::list::ListLimit;
use martlet_types::set::SetLimits;
use martlet_types::zset::ZSetLimits;

use crate::config::Config;

/// The handlers' settings under `config`.
pub fn from_config(config: &Config) -> Settings {
    Settings {
        string_max_bytes: config.proto_max_bulk_len_bytes as usize,
        databases: config.databases as usize,
        list_limit: ListLimit::from_directive(config.list_max_listpack_size),
        set_limits: SetLimits {
            intset_max_entries: config.set_max_intset_entries,
            listpack_max_entries: config.set_max_listpack_entries,
            listpack_max_value_bytes: config.set_max_listpack_value,
        },
        hash_limits: HashLimits {
            listpack_max_entries: config.hash_max_listpack_entries,
            listpack_max_value_bytes: config.hash_max_listpack_value,
        },
        zset_limits: ZSetLimits {
            listpack_max_entries: config.zset_max_listpack_entries,
            listpack_max_value_bytes: config.zset_max_listpack_value,
        },
        rdb_compression: config.rdbcompression,
    }
}

/// The classes of key events that are published; 0 when there is no channel to publish them to.
pub fn wanted_events(config: &Config) -> u32 {
    let events = config.notify_keyspace_events.0;
    if events & 3 == 0 { 0 } else { events }
}
