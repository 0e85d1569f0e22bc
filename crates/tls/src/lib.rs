//! TLS without sockets: the certificates, keys and rules of both sides, read from files, and a connection's
//! bytes.
//!
//! Invariant: material that cannot be read, or does not fit, is an error that names the file; nothing here
//! keeps half of a set.

mod client;
mod groups;
mod names;
mod server;

pub use client::{TlsOptions, TlsSession, TlsSettings};
pub use names::PeerNames;
pub use rustls::ServerConfig;
pub use server::{ClientCertificates, TlsServerOptions};
