//! The list of the files that make an append-only file.

use std::path::Path;

use martlet_protocol::quote;

/// The kind of a listed file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Everything at one moment.
    Base,
    /// Commands since then.
    Incremental,
    /// Replaced by a rewrite, to be removed.
    History,
}

impl FileKind {
    fn letter(self) -> char {
        match self {
            FileKind::Base => 'b',
            FileKind::Incremental => 'i',
            FileKind::History => 'h',
        }
    }
}

/// A file of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name in the directory.
    pub name: String,
    /// Its number among those of its kind; from 1.
    pub number: u64,
    /// Its kind.
    pub kind: FileKind,
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The base, if there is one.
    pub base: Option<FileInfo>,
    /// Files of commands, in order.
    pub increments: Vec<FileInfo>,
    /// Files that a rewrite has replaced.
    pub history: Vec<FileInfo>,
}

/// Why a manifest cannot be read, in Redis' words, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (line {line}: '{text}')")]
pub struct ManifestError {
    /// The fault.
    pub reason: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// The line itself.
    pub text: String,
}

/// Longest line, in bytes (Redis: `MANIFEST_MAX_LINE`).
const LINE_MAX_BYTES: usize = 1024;

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
        let mut manifest = Manifest::default();
        let error = |reason, line, text: &str| ManifestError { reason, line, text: text.to_owned() };
        if text.is_empty() {
            return Err(error("Found an empty AOF manifest", 0, ""));
        }
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let shown = line.trim_end();
            if line.starts_with('#') {
                continue;
            }
            if line.len() > LINE_MAX_BYTES || !line.ends_with('\n') {
                return Err(error("The AOF manifest file contains too long line", index + 1, shown));
            }
            let info = parse_line(shown).map_err(|reason| error(reason, index + 1, shown))?;
            manifest.add(info).map_err(|reason| error(reason, index + 1, shown))?;
        }
        Ok(manifest)
    }

    fn add(&mut self, info: FileInfo) -> Result<(), &'static str> {
        match info.kind {
            FileKind::Base if self.base.is_some() => return Err("Found duplicate base file information"),
            FileKind::Base => self.base = Some(info),
            FileKind::History => self.history.push(info),
            FileKind::Incremental => {
                if self.increments.last().is_some_and(|last| info.number <= last.number) {
                    return Err("Found a non-monotonic sequence number");
                }
                self.increments.push(info);
            }
        }
        Ok(())
    }

    /// The text of the manifest.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for file in self.base.iter().chain(&self.history).chain(&self.increments) {
            let mut name = file.name.clone();
            if name.bytes().any(|byte| !(byte.is_ascii_alphanumeric() || b"._-".contains(&byte))) {
                let mut quoted = Vec::new();
                quote::append_quoted(&mut quoted, name.as_bytes());
                name = String::from_utf8_lossy(&quoted).into_owned();
            }
            text += &format!("file {name} seq {} type {}\n", file.number, file.kind.letter());
        }
        text
    }

    /// The files that make the data, in order.
    pub fn files(&self) -> impl Iterator<Item = &FileInfo> {
        self.base.iter().chain(&self.increments)
    }

    /// Whether there is nothing to load.
    pub fn is_empty(&self) -> bool {
        self.files().next().is_none()
    }

    /// Whether the file is the last to be loaded: the only one whose end may be missing.
    pub fn is_last(&self, file: &FileInfo) -> bool {
        self.files().last() == Some(file)
    }

    /// Makes up a name for the next base and lists it in place of the present one, which becomes history.
    pub fn new_base(&mut self, name: &str, is_rdb: bool) -> FileInfo {
        let is_one = |file: &&FileInfo| file.name.contains(".base.");
        let spent = self.history.iter().filter(is_one).chain(&self.base).map(|file| file.number).max();
        let number = spent.unwrap_or(0) + 1;
        let suffix = if is_rdb { "rdb" } else { "aof" };
        let new = FileInfo { name: format!("{name}.{number}.base.{suffix}"), number, kind: FileKind::Base };
        let old = self.base.replace(new.clone());
        self.history.extend(old.map(|file| FileInfo { kind: FileKind::History, ..file }));
        new
    }

    /// Makes up a name for the next file of commands and lists it.
    pub fn new_increment(&mut self, name: &str) -> FileInfo {
        let is_one = |file: &&FileInfo| file.name.ends_with(".aof") && file.name.contains(".incr.");
        let spent = self.history.iter().filter(is_one).chain(&self.increments).map(|file| file.number).max();
        let number = spent.unwrap_or(0) + 1;
        let kind = FileKind::Incremental;
        let new = FileInfo { name: format!("{name}.{number}.incr.aof"), number, kind };
        self.increments.push(new.clone());
        new
    }

    /// Makes all files of commands but those from number `first` on history.
    pub fn retire_before(&mut self, first: u64) {
        let is_old = |file: &mut FileInfo| file.number < first;
        let old: Vec<_> = self.increments.extract_if(.., is_old).collect();
        self.history.extend(old.into_iter().map(|file| FileInfo { kind: FileKind::History, ..file }));
    }
}

fn parse_line(line: &str) -> Result<FileInfo, &'static str> {
    const FORMAT: &str = "Invalid AOF manifest file format";
    let words = quote::split(line.trim().as_bytes()).ok_or(FORMAT)?;
    // More pairs may come with later versions.
    if words.len() < 6 || !words.len().is_multiple_of(2) {
        return Err(FORMAT);
    }
    let (mut name, mut number, mut kind) = (None, 0, None);
    for pair in words.chunks_exact(2) {
        let value = String::from_utf8_lossy(&pair[1]).into_owned();
        match pair[0].to_ascii_lowercase().as_slice() {
            b"file" => {
                if Path::new(&value).file_name().is_none_or(|base| base != value.as_str()) {
                    return Err("File can't be a path, just a filename");
                }
                name = Some(value);
            }
            b"seq" => number = value.parse().unwrap_or(0),
            b"type" => {
                kind = match value.as_bytes().first() {
                    Some(b'b') => Some(FileKind::Base),
                    Some(b'i') => Some(FileKind::Incremental),
                    Some(b'h') => Some(FileKind::History),
                    _ => return Err("Unknown AOF file type"),
                }
            }
            _ => {}
        }
    }
    match (name, number, kind) {
        (Some(name), 1.., Some(kind)) => Ok(FileInfo { name, number, kind }),
        _ => Err(FORMAT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Manifest::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut manifest = Manifest::default();
        manifest.new_base("a b.aof", true);
        manifest.new_increment("a b.aof");
        let text = "file \"a b.aof.1.base.rdb\" seq 1 type b\nfile \"a b.aof.1.incr.aof\" seq 1 type i\n";
        assert_eq!(manifest.to_text(), text);
        assert_eq!(Manifest::parse(text), Ok(manifest.clone()));
        let second = manifest.new_increment("x");
        manifest.new_base("x", false);
        manifest.retire_before(second.number);
        assert_eq!(
            manifest.to_text(),
            "file x.2.base.aof seq 2 type b\nfile \"a b.aof.1.base.rdb\" seq 1 type h\n\
             file \"a b.aof.1.incr.aof\" seq 1 type h\nfile x.2.incr.aof seq 2 type i\n"
        );
        assert_eq!(Manifest::parse(&manifest.to_text()), Ok(manifest.clone()));
        assert!(manifest.is_last(&second) && !manifest.is_empty());
        manifest.history.push(FileInfo { name: "x.7.base.rdb".into(), number: 7, kind: FileKind::History });
        assert_eq!(manifest.new_base("x", true).number, 8, "a name that was given is not given again");
    }

    #[test]
    fn comments_and_later_pairs_are_skipped() {
        let text = "# x\nfile a seq 2 type i startoffset 7\n  TYPE b FILE c SEQ 1  \n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!((manifest.base.unwrap().name.as_str(), manifest.increments[0].number), ("c", 2));
    }

    #[test]
    fn errors_name_reason_and_line() {
        assert_eq!(error(""), "Found an empty AOF manifest (line 0: '')");
        for text in
            ["\n", "file a seq 1\n", "file a seq 1 type\n", "file a seq 0 type b\n", "seq 1 type b x y\n"]
        {
            let shown = text.trim_end();
            assert_eq!(
                error(text),
                format!("Invalid AOF manifest file format (line 1: '{shown}')"),
                "{text:?}"
            );
        }
        assert!(error("file a seq 1 type i").starts_with("The AOF manifest file contains too long line"));
        assert!(
            error(&format!("file {} seq 1 type i\n", "a".repeat(2000)))
                .starts_with("The AOF manifest file cont")
        );
        assert!(error("file ../a seq 1 type i\n").starts_with("File can't be a path, just a filename"));
        assert!(error("file a seq 1 type z\n").starts_with("Unknown AOF file type"));
        assert!(
            error("file a seq 1 type b\nfile b seq 2 type b\n")
                .starts_with("Found duplicate base file information (line 2")
        );
        assert!(
            error("file a seq 2 type i\nfile b seq 2 type i\n")
                .starts_with("Found a non-monotonic sequence number")
        );
    }
}
