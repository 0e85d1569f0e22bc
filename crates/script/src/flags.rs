//! A script's first line, `#!lua name=… flags=…`: its flags.

/// A script's flags, as bits.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u32);

impl ScriptFlags {
    /// It changes no data.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// It may run when memory is full.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);
    /// It may run on a replica without its primary.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(1 << 2);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(1 << 3);
    /// It may touch keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: ScriptFlags = ScriptFlags(1 << 4);
    /// It has no first line, and so promises nothing.
    pub const COMPATIBLE: ScriptFlags = ScriptFlags(1 << 5);

    /// The flags that can be named, with their names.
    pub const NAMES: &'static [(ScriptFlags, &'static str)] = &[
        (ScriptFlags::NO_WRITES, "no-writes"),
        (ScriptFlags::ALLOW_OOM, "allow-oom"),
        (ScriptFlags::ALLOW_STALE, "allow-stale"),
        (ScriptFlags::NO_CLUSTER, "no-cluster"),
        (ScriptFlags::ALLOW_CROSS_SLOT_KEYS, "allow-cross-slot-keys"),
    ];

    /// Whether all flags of `other` are set.
    pub const fn has(self, other: ScriptFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of flags.
    pub const fn with(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// The flag of this name.
    pub fn named(name: &[u8]) -> Option<ScriptFlags> {
        ScriptFlags::NAMES.iter().find(|(_, known)| known.as_bytes() == name).map(|(flag, _)| *flag)
    }
}

/// The flags of EVAL's script and the length of its first line, the line's end not included.
///
/// # Errors
/// Redis' texts, without a code.
pub fn parse_eval(source: &[u8]) -> Result<(ScriptFlags, usize), Vec<u8>> {
    if !source.starts_with(b"#!") {
        return Ok((ScriptFlags::COMPATIBLE, 0));
    }
    let Some(len) = source.iter().position(|&byte| byte == b'\n') else {
        return Err(b"Invalid script shebang".to_vec());
    };
    let mut flags = ScriptFlags::default();
    let mut words = source[..len].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err([b"Unexpected engine in script shebang: ", engine].concat());
    }
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err([b"Unknown lua shebang option: ", word].concat());
        };
        // Naming none is naming nothing.
        for name in names.split(|&byte| byte == b',').filter(|_| !names.is_empty()) {
            let Some(flag) = ScriptFlags::named(name) else {
                return Err([b"Unexpected flag in script shebang: ", name].concat());
            };
            flags = flags.with(flag);
        }
    }
    Ok((flags, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_and_errors_are_redis() {
        let read =
            |source: &str| parse_eval(source.as_bytes()).map_err(|text| String::from_utf8(text).unwrap());
        assert_eq!(read("return 1"), Ok((ScriptFlags::COMPATIBLE, 0)));
        assert_eq!(read("#!lua\nreturn 1"), Ok((ScriptFlags::default(), 5)));
        let two = ScriptFlags::NO_WRITES.with(ScriptFlags::ALLOW_OOM);
        assert_eq!(read("#!lua flags=no-writes,allow-oom\n"), Ok((two, 31)));
        assert_eq!(read("#!lua"), Err("Invalid script shebang".into()));
        assert_eq!(read("#!a\n"), Err("Unexpected engine in script shebang: #!a".into()));
        assert_eq!(read("#!lua x=1\n"), Err("Unknown lua shebang option: x=1".into()));
        assert_eq!(read("#!lua flags=x\n"), Err("Unexpected flag in script shebang: x".into()));
    }
}
