//! Shared by the tests against RediSearch: a client, an index that both sides have, and generated queries.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod client;
pub mod queries;
