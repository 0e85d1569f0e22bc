//! The shape of a table entry, and the macro that turns a list of entries into a struct.
//!
//! A list of entries is the only place that names a parameter: the struct's field, its default, CONFIG GET,
//! SET and REWRITE and the documentation all come from it.

use super::Config;
use super::value::{Kind, Lines};

/// What setting a parameter does in this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does as its documentation says.
    Honoured,
    /// Kept and shown, but this server's design leaves it nothing to act on; the text says why.
    Moot(&'static str),
    /// Kept and shown, but this version lacks the feature that it tunes; the text names the feature.
    Absent(&'static str),
}

/// May be set by CONFIG SET.
pub const MODIFIABLE: u8 = 0;
/// Only set at start.
pub const IMMUTABLE: u8 = 1;
/// Shown only when asked for by its exact name.
pub const HIDDEN: u8 = 2;
/// CONFIG SET needs `enable-protected-configs`.
pub const PROTECTED: u8 = 4;
/// Its value is a secret: logs show `(redacted)`.
pub const SENSITIVE: u8 = 8;
/// CONFIG SET is refused while data is loaded.
pub const DENY_LOADING: u8 = 16;
/// Takes a list of words instead of one.
pub const MULTI: u8 = 32;
/// Switches something on that an operator relies on: where it has no effect, that deserves a warning.
pub const SWITCH: u8 = 64;

/// CONFIG SET acts on it even where its value stays the same: the named file may have changed.
pub const REREAD: u8 = 128;

/// Sets a parameter from its words: see [`Parameter::parse`].
type Parse = fn(&mut Config, &Kind, words: &[&[u8]], append: bool) -> Result<(), String>;

/// One configuration parameter.
pub struct Parameter {
    /// Its name, lower case.
    pub name: &'static str,
    /// Further names that mean the same.
    pub aliases: &'static [&'static str],
    /// How its text is read and written.
    pub kind: Kind,
    /// `MODIFIABLE`, `IMMUTABLE`, `HIDDEN`, …
    pub flags: u8,
    /// Whether it does anything here.
    pub effect: Effect,
    /// Its description, in a line.
    pub doc: &'static str,
    /// The value's text as CONFIG GET answers it.
    pub(super) render: fn(&Config, &Kind) -> Vec<u8>,
    /// Sets the value from its words; `append` adds to a list that the same file already began.
    pub(super) parse: Parse,
    /// The configuration lines (without the name) that would set the value again.
    pub(super) lines: fn(&Config, default: &Config, &Kind) -> Lines,
    /// Whether both hold the same value.
    pub(super) same: fn(&Config, &Config) -> bool,
}

impl std::fmt::Debug for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Parameter({})", self.name)
    }
}

impl Parameter {
    /// Whether a flag, such as [`IMMUTABLE`], is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether this value promises an effect that the parameter does not have.
    pub fn misleads(&self, config: &Config) -> bool {
        let is_off = matches!(self.get(config).as_slice(), b"" | b"no" | b"0");
        self.has(SWITCH) && self.effect != Effect::Honoured && !is_off
    }

    /// The value's text as CONFIG GET answers it.
    pub fn get(&self, config: &Config) -> Vec<u8> {
        (self.render)(config, &self.kind)
    }

    /// Whether two configurations hold the same value.
    pub fn is_same(&self, a: &Config, b: &Config) -> bool {
        (self.same)(a, b)
    }
}

/// A struct of parameters that is `Config` or lies within it.
pub(super) trait Section {
    /// The section of a configuration.
    fn of(config: &Config) -> &Self;
    /// The section of a configuration that is being changed.
    fn of_mut(config: &mut Config) -> &mut Self;
}

/// Declares a struct with one field per parameter, its defaults, and the entries. The struct is a
/// [`Section`].
macro_rules! parameter_table {
    (
        $(#[doc = $struct_doc:literal])*
        struct $name:ident;
        $(also { $($(#[doc = $also_doc:literal])* $also:ident: $also_type:ty,)* })?
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr
                => $text:literal $(| $alias:literal)*, $kind:expr, $($flag:ident)|+, $effect:expr;
        )*
    ) => {
        $(#[doc = $struct_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($($(#[doc = $also_doc])* pub $also: $also_type,)*)?
            $($(#[doc = $doc])+ #[doc = concat!("\n\nSet by `", $text, "`.")] pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($($also: Default::default(),)*)?
                    $($field: $default,)*
                }
            }
        }

        pub(super) static ENTRIES: &[$crate::table::Parameter] = &[
            $($crate::table::Parameter {
                name: $text,
                aliases: &[$($alias),*],
                kind: $kind,
                flags: $($crate::table::$flag)|+,
                effect: $effect,
                doc: concat!($($doc),+),
                render: |config, kind| {
                    let section: &$name = $crate::table::Section::of(config);
                    $crate::value::Value::render(&section.$field, kind)
                },
                parse: |config, kind, words, append| {
                    let section: &mut $name = $crate::table::Section::of_mut(config);
                    section.$field =
                        <$type as $crate::value::Value>::parse(words, &section.$field, append, kind)?;
                    Ok(())
                },
                lines: |config, default, kind| {
                    let section: &$name = $crate::table::Section::of(config);
                    let default: &$name = $crate::table::Section::of(default);
                    $crate::value::Value::lines(&section.$field, &default.$field, kind)
                },
                same: |a, b| {
                    let (a, b): (&$name, &$name) =
                        ($crate::table::Section::of(a), $crate::table::Section::of(b));
                    a.$field == b.$field
                },
            },)*
        ];
    };
}
pub(super) use parameter_table;
