//! A server's metrics over HTTP: Prometheus' text for machines, a page for people.
//!
//! Every figure is requested from the server by RESP, as any client requests it, under the user whose name
//! and password the HTTP request bears; so the server's own rules decide who may see it. [`serve`] runs on
//! threads of its own; the server runs it for `metrics-port`, with connections that never leave the process,
//! and [`main`] is a tool that does the same for a server elsewhere.
//!
//! Invariant: an HTTP client that sends slowly, much or often costs a bounded number of threads, connections
//! and bytes, all of them this crate's.

mod asked;
mod browse;
mod cli;
mod connections;
mod http;
mod info;
mod live;
mod prometheus;
mod routes;
mod search;
mod shown;
mod source;

pub use cli::main;
pub use http::{Rules, serve};
pub use source::{Open, Source};
