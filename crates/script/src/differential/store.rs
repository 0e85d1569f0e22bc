//! A small server for scripts: some commands on strings and lists, and replies of every kind.

use std::collections::BTreeMap;

use martlet_protocol::reply::Reply;
use martlet_protocol::request::Args;

use crate::{Called, Host, LogLevel, Verdict};

/// See the [module docs](self). Equal stores have seen the same.
#[derive(Debug, Default, PartialEq)]
pub struct Store {
    strings: BTreeMap<Vec<u8>, Vec<u8>>,
    lists: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    calls: Vec<String>,
    lines: Vec<(LogLevel, String)>,
    propagation: Vec<i64>,
}

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

impl Store {
    fn run(&mut self, args: &[Vec<u8>], reply: &mut Reply) -> Result<(), &'static str> {
        const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
        let name = args[0].to_ascii_lowercase();
        let key = args.get(1).cloned().unwrap_or_default();
        match (name.as_slice(), args.len()) {
            (b"get", 2) if self.lists.contains_key(&key) => return Err(WRONG_TYPE),
            (b"get", 2) => reply.bulk_or_null(self.strings.get(&key).map(Vec::as_slice)),
            (b"set", 3..) => {
                self.lists.remove(&key);
                self.strings.insert(key, args[2].clone());
                reply.ok();
            }
            (b"incr", 2) => {
                let text = self.strings.entry(key).or_insert_with(|| b"0".to_vec());
                let number = martlet_base::number::parse_i64(text);
                let number = number.ok_or("ERR value is not an integer or out of range")?.wrapping_add(1);
                *text = number.to_string().into_bytes();
                reply.int(number);
            }
            (b"del", 2) => {
                let had = self.strings.remove(&key).is_some() | self.lists.remove(&key).is_some();
                reply.int(i64::from(had));
            }
            (b"rpush", 3..) if self.strings.contains_key(&key) => return Err(WRONG_TYPE),
            (b"rpush", 3..) => {
                let list = self.lists.entry(key).or_default();
                list.extend_from_slice(&args[2..]);
                reply.count(list.len());
            }
            (b"lrange", 2..) => {
                let list = self.lists.get(&key).map(Vec::as_slice).unwrap_or_default();
                reply.array(list.len());
                list.iter().for_each(|element| reply.bulk(element));
            }
            (b"type", 2) => reply.simple(if self.lists.contains_key(&key) { "list" } else { "string" }),
            (b"echo", _) => {
                reply.array(args.len());
                args.iter().for_each(|arg| reply.bulk(arg));
            }
            (b"nested", _) => reply.raw().extend_from_slice(
                b"*6\r\n:1\r\n$-1\r\n*3\r\n+fine\r\n-BAD inside\r\n*-1\r\n$3\r\na\0b\r\n*0\r\n:-9007199254740993\r\n",
            ),
            (b"fail", _) => return Err("MY failure, as asked"),
            _ => return Err("ERR Unknown Redis command called from script"),
        }
        Ok(())
    }
}

impl Host for Store {
    fn call(&mut self, args: &Args<'_>, reply: &mut Reply) -> Called {
        let args: Vec<Vec<u8>> = args.iter().map(<[u8]>::to_vec).collect();
        self.calls.push(args.iter().map(|arg| shown(arg)).collect::<Vec<_>>().join(" "));
        if args[0] == b"abandon" {
            return Called::Abandon;
        }
        match self.run(&args, reply) {
            Ok(()) => Called::Replied,
            Err(text) => {
                reply.error(text);
                if text.starts_with("ERR Unknown") { Called::Refused } else { Called::Replied }
            }
        }
    }

    fn may_call(&mut self, args: &Args<'_>) -> Option<bool> {
        (args.at(0) == b"get").then_some(true)
    }

    fn interrupt(&mut self) -> Verdict {
        Verdict::Continue
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.lines.push((level, shown(text)));
    }

    fn set_propagation(&mut self, targets: i64) {
        self.propagation.push(targets);
    }
}
