//! All tests of the load tester's process, in one program: its parts are linked once, and run beside each
//! other. `cargo test -p martlet-bench --test all classic::` selects by name.

mod arguments;
mod checks;
mod classic;
mod cluster;
mod common;
mod ends;
mod faults;
mod limits;
mod streams;
mod tls;
mod workloads;
