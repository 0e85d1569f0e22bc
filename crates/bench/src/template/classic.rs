//! The language of redis-benchmark and valkey-benchmark: `__rand_int__`, `__rand_1st__` to `__rand_9th__`,
//! `__data__` and, in cluster mode, `{tag}`, with `__vector__` of the tests of vector sets; and sequences of
//! commands that leave together.

use super::{Field, Op, Part, RAND_INT, TAG, Template, replace, split_once};
use crate::distribution::Distribution;
use std::sync::Arc;

/// Placeholders that have one value throughout a command line, however often they stand there.
const SHARED: [&str; 9] = [
    "__rand_1st__",
    "__rand_2nd__",
    "__rand_3rd__",
    "__rand_4th__",
    "__rand_5th__",
    "__rand_6th__",
    "__rand_7th__",
    "__rand_8th__",
    "__rand_9th__",
];
const DATA: &str = "__data__";
/// A random vector.
pub const VECTOR: &str = "__vector__";

/// Values of the placeholders.
#[derive(Clone, Copy, Default)]
pub struct Words<'a> {
    /// Numbers below it; without, placeholders of numbers are sent as they are.
    pub keyspace: Option<u64>,
    /// Numbers follow each other instead of being random, over all threads, for each placeholder by itself.
    pub sequential: bool,
    /// Whether `{tag}` is one.
    pub cluster: bool,
    /// What `__data__` stands for.
    pub data: &'a [u8],
    /// Components of `__vector__`; without, it is sent as it is.
    pub dimension: Option<usize>,
}

impl Words<'_> {
    fn numbers(&self, keyspace: u64) -> Distribution {
        match self.sequential {
            true => Distribution::sequence(keyspace.max(1)),
            false => Distribution::Uniform(keyspace.max(1)),
        }
    }

    /// Each placeholder with its field.
    fn fields(&self) -> Vec<(&'static str, Field)> {
        let mut fields = Vec::new();
        if let Some(size) = self.keyspace {
            fields.push((RAND_INT, Field::RandInt(self.numbers(size))));
            for (index, word) in SHARED.into_iter().enumerate() {
                fields.push((word, Field::Shared(index, self.numbers(size), true)));
            }
        }
        if self.cluster {
            fields.push((TAG, Field::Tag));
        }
        fields.extend(self.dimension.map(|dimension| (VECTOR, Field::Vector(dimension))));
        fields
    }
}

impl Template {
    /// Compiles the arguments of one command in this language.
    pub fn classic<A: AsRef<[u8]>>(arguments: &[A], words: &Words<'_>) -> Template {
        let arguments: Vec<&[u8]> = arguments.iter().map(AsRef::as_ref).collect();
        Template::sequence(&[(1, arguments)], words)
    }

    /// Compiles commands that are sent one after the other, each the given number of times, as one batch.
    pub fn sequence<A: AsRef<[u8]>>(commands: &[(usize, Vec<A>)], words: &Words<'_>) -> Template {
        let fields = words.fields();
        let (mut drawn, mut whole) = ([false; SHARED.len()], Template::empty());
        for (times, arguments) in commands {
            let arguments: Vec<Vec<Part>> =
                arguments.iter().map(|argument| parts(argument.as_ref(), &fields, words.data)).collect();
            let compiled = Template::compile(&arguments);
            for _ in 0..*times {
                whole.push(compiled.clone(), &mut drawn);
            }
        }
        whole.share_sequence();
        whole
    }

    fn empty() -> Template {
        Template { ops: Vec::new(), fixed_len: Some(0), requests: 0, turns: None }
    }

    /// Occurrences of `__rand_int__` share one sequence: each takes the next number.
    fn share_sequence(&mut self) {
        let mut numbers = Vec::new();
        for op in &mut self.ops {
            if let Op::Fixed(Field::RandInt(Distribution::Sequence { step, offset, .. }), _) = op {
                *offset = numbers.len() as u64;
                numbers.push(step);
            }
        }
        let count = numbers.len() as u64;
        numbers.into_iter().for_each(|step| *step = count);
        if self.ops.iter().any(|op| matches!(op, Op::Fixed(field, _) if field.is_counted())) {
            self.turns = Some(Arc::default());
        }
    }

    /// Adds another's requests. The first occurrence of a shared number draws it.
    fn push(&mut self, mut other: Template, drawn: &mut [bool]) {
        for op in &mut other.ops {
            if let Op::Fixed(Field::Shared(index, _, draws), _) = op
                && let Some(drawn) = drawn.get_mut(*index)
            {
                *draws = !std::mem::replace(drawn, true);
            }
        }
        self.ops.append(&mut other.ops);
        self.fixed_len = self.fixed_len.zip(other.fixed_len).map(|(own, other)| own + other);
        self.requests += other.requests;
    }
}

fn parts(argument: &[u8], fields: &[(&'static str, Field)], data: &[u8]) -> Vec<Part> {
    let mut bytes = Vec::with_capacity(argument.len());
    let mut rest = argument;
    while let Some((before, after)) = split_once(rest, DATA) {
        bytes.extend_from_slice(before);
        bytes.extend_from_slice(data);
        rest = after;
    }
    bytes.extend_from_slice(rest);
    fields
        .iter()
        .fold(vec![Part::Literal(bytes)], |parts, (word, field)| replace(parts, word.as_bytes(), field))
}

/// How often a command is sent, and its arguments.
pub type Repeated = (usize, Vec<Vec<u8>>);

/// The commands of a line: `;` stands between two, and a number before one says how often it is sent.
pub fn commands(line: &[Vec<u8>]) -> Result<Vec<Repeated>, String> {
    line.split(|word| word == b";")
        .map(|words| match words {
            [] => Err("a command is missing beside ';'".into()),
            [times, command @ ..] if !command.is_empty() && times.iter().all(u8::is_ascii_digit) => {
                let times = String::from_utf8_lossy(times);
                match times.parse() {
                    Ok(times @ 1..) => Ok((times, command.to_vec())),
                    _ => Err(format!("'{times}' does not say how often a command is sent")),
                }
            }
            words => Ok((1, words.to_vec())),
        })
        .collect()
}
