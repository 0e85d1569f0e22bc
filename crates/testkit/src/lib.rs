//! What tests are made of: server processes, the raw-wire suite, and a load generator that a server cannot
//! outrun. Nothing here links the server: it is always another process, behind a socket.

pub mod content;
pub mod liveness;
pub mod load;
pub mod moments;
pub mod peers;
pub mod server;
pub mod small_disk;
pub mod wait;
pub mod wire;
