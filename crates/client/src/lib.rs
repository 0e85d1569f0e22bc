//! A RESP client, blocking and pipelined: the tools' and the tests' side of the wire, with no server code in
//! it.

pub mod address;
pub mod blocking;
pub mod mux;
pub mod parts;
pub mod resp;
pub mod scan;
pub mod slot;
pub mod stream;
pub mod uri;
