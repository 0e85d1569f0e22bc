//! The data types as clients see them: the name that TYPE answers, the command that measures a value, the
//! command that reads its beginning. The tools' only table of types; a type's descriptor (`values`) names its
//! entry here.
//!
//! Invariant: every command takes the key as its first argument and changes nothing.

/// Elements of a value that its beginning has at most.
pub const BEGINNING_ELEMENTS: usize = 100;
/// Bytes of a text that its beginning has at most.
pub const BEGINNING_BYTES: usize = 8192;

/// A data type as clients see it.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeView {
    /// The name that TYPE answers.
    pub name: &'static str,
    /// How long a value is; `None` where no command says so.
    pub length: Option<Length>,
    /// How its beginning is read; `None` where no command reads it for people.
    pub beginning: Option<Beginning>,
    /// Whether a walk reports the type also when no key has it, as redis-cli does.
    pub is_always_listed: bool,
}

/// The command that measures a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Length {
    /// The command, whose only argument is the key.
    pub command: &'static str,
    /// The plural of what it counts; [`Length::BYTES`] for sizes.
    pub unit: &'static str,
}

impl Length {
    /// The unit of lengths that are sizes.
    pub const BYTES: &'static str = "bytes";

    /// Whether the length is a size in bytes.
    pub fn is_size(&self) -> bool {
        self.unit == Self::BYTES
    }
}

/// The command that reads the beginning of a value.
#[derive(Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The command's first word.
    pub command: &'static str,
    /// Its arguments behind the key.
    pub arguments: &'static [&'static str],
    /// The form of its reply in RESP2.
    pub form: Form,
}

/// The form of a reply with a value's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One text: the whole value, or its first bytes.
    Text,
    /// A list in which each element has as many items in a row as there are columns.
    Flat(&'static [&'static str]),
    /// A cursor, then such a list: one step of a scan.
    Scan(&'static [&'static str]),
    /// A list of lists, one for each element, with as many items as there are columns.
    Nested(&'static [&'static str]),
}

/// Strings.
pub static STRING: TypeView = TypeView {
    name: "string",
    length: Some(Length { command: "STRLEN", unit: Length::BYTES }),
    beginning: Some(Beginning { command: "GETRANGE", arguments: &["0", "8191"], form: Form::Text }),
    is_always_listed: true,
};

/// Lists.
pub static LIST: TypeView = TypeView {
    name: "list",
    length: Some(Length { command: "LLEN", unit: "items" }),
    beginning: Some(Beginning { command: "LRANGE", arguments: &["0", "99"], form: Form::Flat(&["item"]) }),
    is_always_listed: true,
};

/// Sets.
pub static SET: TypeView = TypeView {
    name: "set",
    length: Some(Length { command: "SCARD", unit: "members" }),
    beginning: Some(Beginning {
        command: "SSCAN",
        arguments: &["0", "COUNT", "100"],
        form: Form::Scan(&["member"]),
    }),
    is_always_listed: true,
};

/// Hashes.
pub static HASH: TypeView = TypeView {
    name: "hash",
    length: Some(Length { command: "HLEN", unit: "fields" }),
    beginning: Some(Beginning {
        command: "HSCAN",
        arguments: &["0", "COUNT", "100"],
        form: Form::Scan(&["field", "value"]),
    }),
    is_always_listed: true,
};

/// Sorted sets.
pub static ZSET: TypeView = TypeView {
    name: "zset",
    length: Some(Length { command: "ZCARD", unit: "members" }),
    beginning: Some(Beginning {
        command: "ZRANGE",
        arguments: &["0", "99", "WITHSCORES"],
        form: Form::Flat(&["member", "score"]),
    }),
    is_always_listed: true,
};

/// Streams; the newest entries are read.
pub static STREAM: TypeView = TypeView {
    name: "stream",
    length: Some(Length { command: "XLEN", unit: "entries" }),
    beginning: Some(Beginning {
        command: "XREVRANGE",
        arguments: &["+", "-", "COUNT", "100"],
        form: Form::Nested(&["id", "fields"]),
    }),
    is_always_listed: true,
};

/// Arrays.
pub static ARRAY: TypeView = TypeView {
    name: "array",
    length: Some(Length { command: "ARCOUNT", unit: "elements" }),
    beginning: Some(Beginning {
        command: "ARSCAN",
        arguments: &["0", "9223372036854775806", "LIMIT", "100"],
        form: Form::Nested(&["index", "element"]),
    }),
    is_always_listed: false,
};

/// Path hashes; their paths are read.
pub static PATH_HASH: TypeView = TypeView {
    name: "pathhash",
    length: Some(Length { command: "PHCARD", unit: "paths" }),
    beginning: Some(Beginning {
        command: "PHSCAN",
        arguments: &["0", "COUNT", "100"],
        form: Form::Scan(&["path"]),
    }),
    is_always_listed: false,
};

/// JSON documents. No command measures one whatever its root is.
pub static JSON: TypeView = TypeView {
    name: "ReJSON-RL",
    length: None,
    beginning: Some(Beginning {
        command: "JSON.GET",
        arguments: &["INDENT", "  ", "NEWLINE", "\n", "SPACE", " "],
        form: Form::Text,
    }),
    is_always_listed: false,
};

/// The facts about a value that stand for its elements: a fixed number of names, each with its value.
const fn facts(command: &'static str) -> Beginning {
    Beginning { command, arguments: &[], form: Form::Flat(&["property", "value"]) }
}

/// Bloom filters.
pub static BLOOM: TypeView = TypeView {
    name: "MBbloom--",
    length: Some(Length { command: "BF.CARD", unit: "items" }),
    beginning: Some(facts("BF.INFO")),
    is_always_listed: false,
};

/// Cuckoo filters.
pub static CUCKOO: TypeView =
    TypeView { name: "MBbloomCF", length: None, beginning: Some(facts("CF.INFO")), is_always_listed: false };

/// Count-Min sketches.
pub static COUNT_MIN: TypeView =
    TypeView { name: "CMSk-TYPE", length: None, beginning: Some(facts("CMS.INFO")), is_always_listed: false };

/// Top-K sketches.
pub static TOP_K: TypeView = TypeView {
    name: "TopK-TYPE",
    length: None,
    beginning: Some(facts("TOPK.INFO")),
    is_always_listed: false,
};

/// t-digests.
pub static T_DIGEST: TypeView = TypeView {
    name: "TDIS-TYPE",
    length: None,
    beginning: Some(facts("TDIGEST.INFO")),
    is_always_listed: false,
};

/// Vector sets.
pub static VECTOR_SET: TypeView = TypeView {
    name: "vectorset",
    length: Some(Length { command: "VCARD", unit: "elements" }),
    beginning: Some(Beginning {
        command: "VRANGE",
        arguments: &["-", "+", "100"],
        form: Form::Flat(&["element"]),
    }),
    is_always_listed: false,
};

/// Time series; the newest samples are read.
pub static TIME_SERIES: TypeView = TypeView {
    name: "TSDB-TYPE",
    length: None,
    beginning: Some(Beginning {
        command: "TS.REVRANGE",
        arguments: &["-", "+", "COUNT", "100"],
        form: Form::Nested(&["timestamp", "value"]),
    }),
    is_always_listed: false,
};

/// Dictionaries of suggestions; the best ones are read.
pub static SUGGESTIONS: TypeView = TypeView {
    name: "trietype0",
    length: Some(Length { command: "FT.SUGLEN", unit: "suggestions" }),
    beginning: Some(Beginning {
        command: "FT.SUGGET",
        arguments: &["", "WITHSCORES", "MAX", "100"],
        form: Form::Flat(&["suggestion", "score"]),
    }),
    is_always_listed: false,
};

/// All types, in the order in which redis-cli lists them.
pub static DATA_TYPES: &[&TypeView] = &[
    &STRING,
    &LIST,
    &SET,
    &HASH,
    &ZSET,
    &STREAM,
    &ARRAY,
    &PATH_HASH,
    &JSON,
    &BLOOM,
    &CUCKOO,
    &COUNT_MIN,
    &TOP_K,
    &T_DIGEST,
    &VECTOR_SET,
    &TIME_SERIES,
    &SUGGESTIONS,
];

/// The type that TYPE calls so.
pub fn data_type(name: &str) -> Option<&'static TypeView> {
    DATA_TYPES.iter().copied().find(|known| known.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_by_their_names() {
        for known in DATA_TYPES {
            assert_eq!(data_type(known.name), Some(*known));
        }
        assert_eq!(data_type("rejson-rl"), None);
        assert!(STRING.length.as_ref().is_some_and(Length::is_size));
        assert!(LIST.length.as_ref().is_some_and(|length| !length.is_size()));
    }

    #[test]
    fn beginnings_have_the_announced_limits() {
        for known in DATA_TYPES {
            // The whole value is one text, or facts are a fixed number of names.
            let Some(beginning) = &known.beginning else { continue };
            if ["JSON.GET", "BF.INFO", "CF.INFO", "CMS.INFO", "TOPK.INFO", "TDIGEST.INFO"]
                .contains(&beginning.command)
            {
                continue;
            }
            let last = match beginning.form {
                Form::Text => BEGINNING_BYTES - 1,
                _ if beginning.arguments.contains(&"99") => BEGINNING_ELEMENTS - 1,
                _ => BEGINNING_ELEMENTS,
            };
            assert!(beginning.arguments.contains(&last.to_string().as_str()), "{}", known.name);
        }
    }
}
