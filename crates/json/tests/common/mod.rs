//! The JSON commands over a map of documents, as thin as they can be: arguments to operations, results to
//! replies as text. The tests compare these replies with a real server's.

use martlet_json::document::Document;
use martlet_json::error::{Error, Result};
use martlet_json::ops::{self, Answer, Condition, Deleted, NumberOperation};
use martlet_json::path::Path;
use martlet_json::text::{Layout, parse, to_text};
use martlet_json::value::{Kind, Node, Number, Value, View};
use std::collections::HashMap;

const NO_KEY: &str = "-ERR could not perform this operation on a key that doesn't exist";

/// Documents by key.
#[derive(Default)]
pub struct Store(HashMap<String, Document>);

fn bulk(bytes: &[u8]) -> String {
    format!("${}", String::from_utf8_lossy(bytes))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(" | "))
}

fn integer(number: usize) -> String {
    format!(":{number}")
}

fn answer<T>(answer: Answer<T>, reply: impl Fn(T) -> String) -> String {
    match answer {
        Answer::Legacy(result) => reply(result),
        Answer::Paths(results) => {
            list(results.into_iter().map(|result| result.map_or("nil".to_owned(), &reply)))
        }
    }
}

fn resp(node: Node<'_>) -> String {
    match node.view() {
        View::Null => "nil".to_owned(),
        View::Bool(value) => format!("+{value}"),
        View::Number(Number::Int(number)) => format!(":{number}"),
        View::Number(number) => {
            // Redis' own way with doubles, which the command's layer has.
            let text = number.as_f64().to_string();
            let digits = text.trim_end_matches('0');
            let zeros = text.len() - digits.len();
            bulk(if digits.len() == 1 && zeros > 16 { format!("{digits}e+{zeros}") } else { text }.as_bytes())
        }
        View::Text(text) => bulk(text.as_bytes()),
        View::Array(array) => list(std::iter::once("+[".to_owned()).chain(array.iter().map(resp))),
        View::Object(object) => {
            let members = object.members().iter();
            let items = members.flat_map(|m| [bulk(m.name().as_bytes()), resp(Node::Value(m.value()))]);
            list(std::iter::once("+{".to_owned()).chain(items))
        }
    }
}

fn values(texts: &[&str]) -> Result<Vec<Value>> {
    texts.iter().map(|text| parse(text.as_bytes(), None)).collect()
}

fn number(text: &str) -> i64 {
    text.parse().expect("an integer argument")
}

impl Store {
    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a filter of the command's path would be applied to a value that is no array: of a scalar
    /// ReJSON 2.8 tests the value itself, where 8 selects nothing, and in objects it finds places that it
    /// cannot write to.
    pub fn filters_no_array(&self, command: &[&str]) -> bool {
        let Some(document) = self.0.get(command[1]) else { return false };
        let Some(path) = command.iter().skip(2).find(|argument| argument.contains("[?")) else {
            return false;
        };
        let mut prefixes = path.match_indices("[?").map(|(at, _)| &path[..at]);
        prefixes.any(|prefix| {
            let path = Path::parse(prefix.as_bytes()).expect("a path's beginning");
            let nodes = path.nodes(document.root()).expect("a path that is evaluated");
            nodes.iter().any(|node| !matches!(node.view(), View::Array(_)))
        })
    }

    /// The reply to one command.
    pub fn run(&mut self, command: &[&str]) -> String {
        let (name, arguments) = command.split_first().expect("a command");
        let reply = match *name {
            "JSON.SET" => self.set(arguments),
            "JSON.GET" => self.get(arguments),
            "JSON.MERGE" => self.merge(arguments),
            "JSON.DEL" => self.delete(arguments),
            _ if self.0.contains_key(arguments[0]) => {
                let document = self.0.get_mut(arguments[0]).expect("the key");
                let path = arguments.get(1).map_or(Ok(Path::root()), |path| Path::parse(path.as_bytes()));
                path.and_then(|path| {
                    with_document(name, document, &path, arguments.get(2..).unwrap_or_default())
                })
            }
            _ => Ok(NO_KEY.to_owned()),
        };
        for document in self.0.values() {
            assert_eq!(document.heap_bytes(), document.value().heap_bytes(), "{command:?}");
            assert!(document.value().depth() < 128);
        }
        reply.unwrap_or_else(|error| format!("-{error}"))
    }

    fn set(&mut self, arguments: &[&str]) -> Result<String> {
        let [key, path, text, options @ ..] = arguments else { panic!("JSON.SET's arguments") };
        let condition = match options {
            ["NX"] => Condition::Missing,
            ["XX"] => Condition::Present,
            _ => Condition::Always,
        };
        let value = parse(text.as_bytes(), None)?;
        let path = Path::parse(path.as_bytes())?;
        let Some(document) = self.0.get_mut(*key) else {
            if condition == Condition::Present {
                return Ok("nil".to_owned());
            }
            self.0.insert((*key).to_owned(), ops::create(&path, value)?);
            return Ok("+OK".to_owned());
        };
        let outcome = ops::set(document, &path, value, condition)?;
        Ok(if outcome.complete { "+OK" } else { "nil" }.to_owned())
    }

    fn merge(&mut self, arguments: &[&str]) -> Result<String> {
        let [key, path, text] = arguments else { panic!("JSON.MERGE's arguments") };
        let value = parse(text.as_bytes(), None)?;
        let path = Path::parse(path.as_bytes())?;
        match self.0.get_mut(*key) {
            Some(document) => {
                let merged = ops::merge(document, &path, &value)?;
                Ok(if merged { "+OK" } else { "nil" }.to_owned())
            }
            None => {
                self.0.insert((*key).to_owned(), ops::create(&path, value)?);
                Ok("+OK".to_owned())
            }
        }
    }

    fn get(&self, arguments: &[&str]) -> Result<String> {
        let (key, mut options) = arguments.split_first().expect("a key");
        let mut layout = Layout::default();
        while let [option, value, rest @ ..] = options {
            match *option {
                "INDENT" => layout.indent = value.as_bytes(),
                "NEWLINE" => layout.newline = value.as_bytes(),
                "SPACE" => layout.space = value.as_bytes(),
                _ => break,
            }
            options = rest;
        }
        let Some(document) = self.0.get(*key) else { return Ok("nil".to_owned()) };
        let paths = match options {
            [] => vec![Path::root()],
            [path] => vec![Path::parse(path.as_bytes())?],
            several => several.iter().filter_map(|path| Path::parse(path.as_bytes()).ok()).collect(),
        };
        let is_legacy = paths.iter().all(Path::is_legacy);
        match &paths[..] {
            [path] => ops::get(document, path, layout),
            paths => ops::get_several(document, paths, is_legacy, layout),
        }
        .map(|text| bulk(&text))
    }

    fn delete(&mut self, arguments: &[&str]) -> Result<String> {
        let Some(document) = self.0.get_mut(arguments[0]) else { return Ok(":0".to_owned()) };
        let path = arguments.get(1).map_or(Ok(Path::root()), |path| Path::parse(path.as_bytes()))?;
        let deleted = match ops::delete(document, &path)? {
            Deleted::Document => {
                self.0.remove(arguments[0]);
                1
            }
            Deleted::Values(count) => {
                // ReJSON 8 removes a document without children; 2.8 does not, and it is the oracle here.
                count
            }
        };
        Ok(integer(deleted))
    }
}

fn with_document(name: &str, document: &mut Document, path: &Path, rest: &[&str]) -> Result<String> {
    let optional = |length: Option<usize>| length.map_or("nil".to_owned(), integer);
    Ok(match name {
        "JSON.TYPE" => answer(ops::kind(document, path)?, |kind| {
            kind.map(Kind::name).map_or("nil".to_owned(), |name| bulk(name.as_bytes()))
        }),
        "JSON.RESP" => answer(ops::resp(document, path)?, |value| resp(Node::Value(&value))),
        "JSON.STRLEN" => answer(ops::str_len(document, path)?, integer),
        "JSON.OBJLEN" => answer(ops::obj_len(document, path)?, optional),
        "JSON.OBJKEYS" => answer(ops::obj_keys(document, path)?, |names| match names {
            Some(names) => list(names.into_iter().map(|name| bulk(name.as_bytes()))),
            None => "nil".to_owned(),
        }),
        "JSON.ARRLEN" => answer(ops::arr_len(document, path)?, integer),
        "JSON.ARRINDEX" => {
            let value = parse(rest[0].as_bytes(), None).map_err(Error::for_argument)?;
            let [start, stop] = [1, 2].map(|at| rest.get(at).map_or(0, |text| number(text)));
            answer(ops::arr_index(document, path, &value, start, stop)?, |found| match found {
                ops::Found::Index(index) => integer(index),
                ops::Found::Nowhere => ":-1".to_owned(),
            })
        }
        "JSON.ARRAPPEND" => answer(ops::arr_append(document, path, &values(rest)?)?, integer),
        "JSON.ARRINSERT" => {
            answer(ops::arr_insert(document, path, number(rest[0]), &values(&rest[1..])?)?, integer)
        }
        "JSON.ARRPOP" => {
            let index = rest.first().map_or(-1, |text| number(text));
            answer(ops::arr_pop(document, path, index)?, |popped| {
                popped.map_or("nil".to_owned(), |value| bulk(&to_text(Node::Value(&value))))
            })
        }
        "JSON.ARRTRIM" => answer(ops::arr_trim(document, path, number(rest[0]), number(rest[1]))?, integer),
        "JSON.NUMINCRBY" => numbers(document, path, NumberOperation::Increment, rest[0])?,
        "JSON.NUMMULTBY" => numbers(document, path, NumberOperation::Multiply, rest[0])?,
        "JSON.NUMPOWBY" => numbers(document, path, NumberOperation::Power, rest[0])?,
        "JSON.TOGGLE" => match ops::toggle(document, path)? {
            Answer::Legacy(value) => bulk(value.to_string().as_bytes()),
            paths => answer(paths, |value| integer(usize::from(value))),
        },
        "JSON.STRAPPEND" => answer(ops::str_append(document, path, rest[0].as_bytes())?, integer),
        "JSON.CLEAR" => integer(ops::clear(document, path)?),
        _ => panic!("no command: {name}"),
    })
}

fn numbers(
    document: &mut Document,
    path: &Path,
    operation: NumberOperation,
    operand: &str,
) -> Result<String> {
    Ok(match ops::number_operation(document, path, operation, operand.as_bytes())? {
        Answer::Legacy(number) => bulk(number.to_string().as_bytes()),
        Answer::Paths(numbers) => {
            let texts = numbers
                .into_iter()
                .map(|number| number.map_or("null".to_owned(), |number| number.to_string()));
            bulk(format!("[{}]", texts.collect::<Vec<_>>().join(",")).as_bytes())
        }
    })
}
