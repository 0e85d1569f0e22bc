//! All tests of whole processes but the raw-wire suite, in one program: its parts are linked once, and run
//! beside each other. `cargo test -p martlet --test all cluster::` selects by name.

mod access;
mod append_only;
mod busy_scripts;
mod carried;
mod cli;
mod cluster;
mod command_table;
mod crash;
mod crash_report;
mod demonstration;
mod eviction;
mod exchange;
mod fairness;
mod functions;
mod info;
mod limits;
mod liveness;
mod long_arguments;
mod long_replies;
mod metrics;
mod migrate;
mod migrate_under_way;
mod persistence;
mod pipeline;
mod proxies;
mod readme;
mod refusals;
mod replication;
mod reproduce;
mod scripts;
mod sentinel;
mod shutdown;
mod tls;
mod tools;
mod waits;
