//! Shared by the tests against RedisTimeSeries: a small command layer over the crate, replies as text that
//! both sides render alike, payloads of DUMP, a client, and generated operations.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod client;
pub mod commands;
pub mod generate;
pub mod payload;

/// A reply; doubles are kept as such so that they compare by value.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Double(f64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    /// One line. A simple string that is a number is one: RESP2 has doubles so.
    pub fn render(&self) -> String {
        match self {
            Reply::Simple(text) => match text.parse::<f64>() {
                Ok(number) => Reply::Double(number).render(),
                Err(_) => format!("+{text}"),
            },
            Reply::Error(text) => format!("-{text}"),
            Reply::Integer(number) => format!(":{number}"),
            Reply::Double(number) if number.is_nan() => ",nan".to_owned(),
            Reply::Double(number) => format!(",{number:?}"),
            Reply::Bulk(bytes) => format!("${}", bytes.escape_ascii()),
            Reply::Null => "_".to_owned(),
            Reply::Array(items) => {
                let items: Vec<String> = items.iter().map(Reply::render).collect();
                format!("[{}]", items.join(" "))
            }
        }
    }
}
