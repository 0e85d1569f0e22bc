//! How the text of a parameter is read and written, by type.
//!
//! Invariant: for every value `v`, parsing what `lines` writes gives `v` again; a refused text
//! changes nothing. The refusals are Redis' own words, since tools match on them.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use martlet_base::disk::error_text;

/// Accepted values of a parameter; bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    YesNo,
    /// A decimal number.
    Integer(i128, i128),
    /// An octal number, such as a file mode.
    Octal(i128, i128),
    /// A number of bytes with an optional unit: `b`, `k` (1000), `kb` (1024), `m`, `mb`, `g`, `gb`.
    Memory(i128, i128),
    /// As `Memory`, or a percentage of `maxmemory` up to 100.
    MemoryOrPercent(i128),
    /// One of the words.
    OneOf(&'static [&'static str]),
    /// Several of the words.
    AnyOf(&'static [&'static str]),
    /// Free text, with its check.
    Text(fn(&[u8]) -> Result<(), &'static str>),
    /// A directory that exists.
    Directory,
    /// Pairs of seconds and changes.
    SaveList,
    /// Class, hard limit, soft limit, seconds.
    OutputLimits,
    /// Three numbers from -2000 to 2000.
    OomScores,
    /// Letters of event classes.
    Events,
    /// Up to 16 addresses.
    Addresses,
    /// A host and a port, or `no one`.
    HostPort,
    /// Numbers from 0 to 100.
    Percentiles,
    /// A number above 0 and below 1.
    Share,
    /// `yes`, `no`, or some of `cpu`, `net` and `mem`.
    SlotMetrics,
}

/// Free text without a check.
pub(super) const TEXT: Kind = Kind::Text(|_| Ok(()));

/// The lines, without the parameter's name, that CONFIG REWRITE writes for a value; each with whether it must
/// be written when the file does not name the parameter yet.
#[derive(Debug, Default)]
pub(super) struct Lines(pub Vec<(Vec<u8>, bool)>);

impl Lines {
    /// A single line.
    pub fn one(text: Vec<u8>, force: bool) -> Self {
        Self(vec![(text, force)])
    }

    /// No line: whatever the file said is removed.
    pub fn none() -> Self {
        Self(Vec::new())
    }
}

/// A type that a parameter can have.
pub(super) trait Value: Sized {
    /// The value of `words`. `previous` is the value so far; `append` says that the same file already set it,
    /// so that a list grows instead of being replaced.
    fn parse(words: &[&[u8]], previous: &Self, append: bool, kind: &Kind) -> Result<Self, String>;

    /// The text that CONFIG GET answers.
    fn render(&self, kind: &Kind) -> Vec<u8>;

    /// What CONFIG REWRITE writes.
    fn lines(&self, default: &Self, kind: &Kind) -> Lines;
}

/// The only word, or Redis' refusal.
pub(super) fn single<'a>(words: &[&'a [u8]]) -> Result<&'a [u8], String> {
    match words {
        [word] => Ok(word),
        _ => Err("wrong number of arguments".into()),
    }
}

/// A decimal number written the one canonical way: no plus sign, no leading zeros, no blanks.
pub(super) fn integer(text: &[u8]) -> Option<i128> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let value: i128 = if canonical { std::str::from_utf8(text).ok()?.parse().ok()? } else { return None };
    (i128::from(i64::MIN)..=i128::from(i64::MAX)).contains(&value).then_some(value)
}

/// A number as C's `strtoll` reads it whole: leading blanks, a sign and leading zeros are allowed.
pub(super) fn lenient_integer(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let text = std::str::from_utf8(text).ok()?.trim_start();
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0i128, |sum, digit| (sum * 10 + i128::from(digit - b'0')).min(1 << 64));
    let value = if negative { -magnitude } else { magnitude };
    Some(value.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// A number of bytes with an optional unit.
pub fn memory(text: &[u8]) -> Option<u64> {
    let length = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(length);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number = digits
        .iter()
        .try_fold(0u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    number.checked_mul(factor)
}

/// A number of bytes in the largest unit that divides it.
pub(super) fn memory_text(bytes: u64) -> String {
    match bytes {
        0 => "0".into(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{}gb", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}mb", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}kb", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// A number written in octal, as a file mode is.
fn octal(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() {
        return Some(0);
    }
    i64::from_str_radix(text, 8).ok().map(i128::from)
}

/// `text` between double quotes, so that the splitter of a configuration line gives `text` back.
pub(super) fn quote(text: &[u8]) -> Vec<u8> {
    let mut quoted = Vec::with_capacity(text.len() + 2);
    quoted.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => quoted.extend([b'\\', byte]),
            b'\n' => quoted.extend(b"\\n"),
            b'\r' => quoted.extend(b"\\r"),
            b'\t' => quoted.extend(b"\\t"),
            0x07 => quoted.extend(b"\\a"),
            0x08 => quoted.extend(b"\\b"),
            0x20..=0x7e => quoted.push(byte),
            _ => quoted.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}

impl Value for bool {
    fn parse(words: &[&[u8]], _: &Self, _: bool, _: &Kind) -> Result<Self, String> {
        match single(words)? {
            word if word.eq_ignore_ascii_case(b"yes") => Ok(true),
            word if word.eq_ignore_ascii_case(b"no") => Ok(false),
            _ => Err("argument must be 'yes' or 'no'".into()),
        }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        if *self { b"yes".into() } else { b"no".into() }
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        Lines::one(self.render(kind), self != default)
    }
}

/// The number that `word` stands for, within its kind's bounds.
fn number(word: &[u8], kind: &Kind) -> Result<i128, String> {
    let (value, min, max) = match *kind {
        Kind::Memory(min, max) => {
            (memory(word).map(i128::from).ok_or("argument must be a memory value")?, min, max)
        }
        Kind::Octal(min, max) => {
            (octal(word).ok_or("argument couldn't be parsed as an octal number")?, min, max)
        }
        Kind::Integer(min, max) => {
            (integer(word).ok_or("argument couldn't be parsed into an integer")?, min, max)
        }
        _ => return Err("argument couldn't be parsed into an integer".into()),
    };
    match kind {
        _ if (min..=max).contains(&value) => Ok(value),
        Kind::Octal(..) => Err(format!("argument must be between {min:o} and {max:o} inclusive")),
        _ => Err(format!("argument must be between {min} and {max} inclusive")),
    }
}

macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn parse(words: &[&[u8]], _: &Self, _: bool, kind: &Kind) -> Result<Self, String> {
                // The bounds of the kind lie within the type's: a test checks each entry.
                Self::try_from(number(single(words)?, kind)?)
                    .map_err(|_| "argument couldn't be parsed into an integer".into())
            }

            fn render(&self, kind: &Kind) -> Vec<u8> {
                match kind {
                    Kind::Octal(..) => format!("{self:o}").into(),
                    _ => self.to_string().into(),
                }
            }

            fn lines(&self, default: &Self, kind: &Kind) -> Lines {
                let text = match (kind, u64::try_from(*self)) {
                    (Kind::Memory(..), Ok(bytes)) => memory_text(bytes).into(),
                    _ => self.render(kind),
                };
                Lines::one(text, self != default)
            }
        }
    )+};
}

numbers!(i32, u16, u32, i64, u64, usize);

/// A limit in bytes, or relative to `maxmemory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLimit {
    /// A number of bytes; zero for no limit.
    Bytes(u64),
    /// Hundredths of `maxmemory`.
    Percent(u8),
}

impl MemoryLimit {
    /// The limit in bytes, where `whole` is what per cents are of; zero is no limit.
    pub fn bytes(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

impl Value for MemoryLimit {
    fn parse(words: &[&[u8]], _: &Self, _: bool, kind: &Kind) -> Result<Self, String> {
        let word = single(words)?;
        let Kind::MemoryOrPercent(max) = *kind else {
            return Err("argument must be a memory or percent value".into());
        };
        if let Some(bytes) = memory(word) {
            return match i128::from(bytes) {
                value if value <= max => Ok(Self::Bytes(bytes)),
                _ => Err(format!("argument must be between -100 and {max} inclusive")),
            };
        }
        match word.strip_suffix(b"%").and_then(integer) {
            Some(0) => Ok(Self::Bytes(0)),
            Some(percent @ 1..=100) => Ok(Self::Percent(percent as u8)),
            Some(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
            _ => Err("argument must be a memory or percent value".into()),
        }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_string().into(),
            Self::Percent(percent) => format!("{percent}%").into(),
        }
    }

    fn lines(&self, default: &Self, kind: &Kind) -> Lines {
        let text = match self {
            Self::Bytes(bytes) => memory_text(*bytes).into(),
            Self::Percent(_) => self.render(kind),
        };
        Lines::one(text, self != default)
    }
}

/// A type that holds free text.
pub(super) trait Text: Sized + PartialEq {
    /// The type's value for `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Self, String>;
    /// The bytes that it was made of.
    fn bytes(&self) -> &[u8];
}

impl Text for Vec<u8> {
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        Ok(bytes.into())
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Text for String {
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        Self::from_utf8(bytes.into()).map_err(|_| "argument must be valid UTF-8".into())
    }

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Text for PathBuf {
    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if bytes.contains(&0) {
            return Err("argument must not contain a NUL byte".into());
        }
        Ok(OsStr::from_bytes(bytes).to_os_string().into())
    }

    fn bytes(&self) -> &[u8] {
        self.as_os_str().as_bytes()
    }
}

/// The canonical form of a directory that exists and may be entered, or the operating system's refusal.
fn directory(path: &std::path::Path) -> Result<Vec<u8>, String> {
    let path = path.canonicalize().map_err(|error| error_text(&error))?;
    if !path.is_dir() {
        return Err(error_text(&std::io::Error::from_raw_os_error(libc::ENOTDIR)));
    }
    rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).map_err(|error| error_text(&error.into()))?;
    Ok(path.into_os_string().into_vec())
}

fn checked_text<T: Text>(words: &[&[u8]], kind: &Kind) -> Result<T, String> {
    let word = single(words)?;
    if let Kind::Text(check) = kind {
        check(word)?;
    }
    T::from_bytes(word)
}

macro_rules! texts {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn parse(words: &[&[u8]], previous: &Self, _: bool, kind: &Kind) -> Result<Self, String> {
                match kind {
                    Kind::Directory => {
                        let base = std::path::Path::new(OsStr::from_bytes(previous.bytes()));
                        let path = match single(words)? {
                            // As for `chdir`, an empty path names nothing.
                            [] => std::path::PathBuf::new(),
                            word => beneath(base, word),
                        };
                        Self::from_bytes(&directory(&path)?)
                    }
                    _ => checked_text(words, kind),
                }
            }

            fn render(&self, _: &Kind) -> Vec<u8> {
                self.bytes().into()
            }

            fn lines(&self, default: &Self, kind: &Kind) -> Lines {
                Lines::one(quote(self.bytes()), matches!(kind, Kind::Directory) || self != default)
            }
        }
    )+};
}

texts!(Vec<u8>, String, PathBuf);

/// Text where the empty one means that the parameter is not set.
impl<T: Text> Value for Option<T> {
    fn parse(words: &[&[u8]], _: &Self, _: bool, kind: &Kind) -> Result<Self, String> {
        match single(words)? {
            [] => Ok(None),
            _ => checked_text(words, kind).map(Some),
        }
    }

    fn render(&self, _: &Kind) -> Vec<u8> {
        self.as_ref().map_or(Vec::new(), |text| text.bytes().into())
    }

    fn lines(&self, default: &Self, _: &Kind) -> Lines {
        match self {
            None => Lines::none(),
            Some(text) => Lines::one(quote(text.bytes()), self != default),
        }
    }
}

/// `path` made absolute from `base`, without looking at the file system.
pub(super) fn beneath(base: &std::path::Path, path: &[u8]) -> PathBuf {
    base.join(std::ffi::OsString::from_vec(path.into()))
}
