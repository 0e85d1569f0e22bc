//! RESP2 and RESP3 without I/O: [`request`] turns received bytes into arguments, [`reply`] turns answers into
//! bytes.
//!
//! Nothing here touches sockets or keys; the server and the client tools share it.

pub mod long;
pub mod quote;
pub mod reply;
pub mod request;
pub mod room;
