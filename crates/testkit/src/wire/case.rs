//! Case files as values: every statement keeps its line number, so that a failure points at it.

use super::pattern::{Pattern, Protocol};
use super::target::{Target, TargetKind};
use super::words;
use std::fmt;
use std::path::{Path, PathBuf};

/// The cases of one family.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// In the order of the file.
    pub cases: Vec<Case>,
}

/// One case: its conditions, then its statements.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Unique in its file.
    pub name: String,
    /// Line of its `==`, from 1.
    pub line: usize,
    /// The servers that it is for; empty: all.
    pub servers: Vec<ServerFilter>,
    /// The module that the server must have.
    pub module: Option<String>,
    /// The only protocol under which it is meaningful.
    pub protocol: Option<Protocol>,
    /// CONFIG parameters for the length of the case.
    pub config: Vec<(String, String)>,
    /// Whether it may be replayed only as written.
    pub serial: bool,
    /// Whether some requests get no reply.
    pub unanswered: bool,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its line in the file, from 1.
    pub line: usize,
    /// The connection, from 1.
    pub connection: usize,
    /// The action.
    pub action: Action,
    /// The statement as it stands in the file, for messages.
    pub source: String,
}

/// The action of a statement.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a request; the text is split after `${name}` was filled in.
    Send(String),
    /// Send a request again and again until the reply is the next expected one.
    Poll(String),
    /// Send bytes.
    SendRaw(Vec<u8>),
    /// The next reply, under that protocol only when one is given.
    Expect(Pattern, Option<Protocol>),
    /// The next bytes.
    ExpectRaw(Vec<u8>),
    /// Close the connection.
    Close,
    /// Close our sending side.
    HalfClose,
    /// Wait until the server counts that many blocked clients.
    AwaitBlocked(i64),
}

/// A server that a case is for.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFilter {
    kind: TargetKind,
    bound: Option<(Comparison, (u32, u32))>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    AtLeast,
    Below,
}

/// The fault of a case file.
#[derive(Debug)]
pub struct ParseError {
    /// The file.
    pub path: PathBuf,
    /// From 1; 0 when the file cannot be read.
    pub line: usize,
    /// Why.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

impl ServerFilter {
    fn parse(word: &str) -> Result<Self, String> {
        let (name, bound) = if let Some((name, version)) = word.split_once(">=") {
            (name, Some((Comparison::AtLeast, version_of(version)?)))
        } else if let Some((name, version)) = word.split_once('<') {
            (name, Some((Comparison::Below, version_of(version)?)))
        } else {
            (word, None)
        };
        let kind = match name {
            "redis" => TargetKind::Redis,
            "valkey" => TargetKind::Valkey,
            "martlet" => TargetKind::Martlet,
            _ => return Err(format!("no such server: {name}")),
        };
        Ok(Self { kind, bound })
    }

    fn admits(&self, target: &Target) -> bool {
        self.kind == target.kind
            && match self.bound {
                None => true,
                Some((Comparison::AtLeast, version)) => target.version >= version,
                Some((Comparison::Below, version)) => target.version < version,
            }
    }
}

/// The first two numbers of a version.
pub fn version_of(text: &str) -> Result<(u32, u32), String> {
    let mut parts = text.trim().split('.').map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
        _ => Err(format!("not a version: {text}")),
    }
}

impl Case {
    /// Whether the case is meant for this server.
    pub fn applies_to(&self, target: &Target) -> bool {
        (self.servers.is_empty() || self.servers.iter().any(|filter| filter.admits(target)))
            && self.module.as_ref().is_none_or(|module| target.modules.contains(module))
    }

    fn tag(&mut self, text: &str) -> Result<(), String> {
        let (tag, rest) = text.split_once(' ').unwrap_or((text, ""));
        match tag {
            "on" => {
                for word in rest.split_whitespace() {
                    self.servers.push(ServerFilter::parse(word)?);
                }
            }
            "module" => self.module = Some(rest.trim().into()),
            "since" => {
                version_of(rest)?;
                for word in [&format!("redis>={}", rest.trim()), "valkey", "martlet"] {
                    self.servers.push(ServerFilter::parse(word)?);
                }
            }
            "resp" => self.protocol = Some(protocol_of(rest.trim())?),
            "serial" => self.serial = true,
            "unanswered" => (self.serial, self.unanswered) = (true, true),
            "config" => {
                let (name, value) = rest.trim().split_once(' ').ok_or("@config NAME VALUE")?;
                let value = words::split(value)?.into_iter().next().unwrap_or_default();
                self.config.push((name.into(), String::from_utf8_lossy(&value).into_owned()));
            }
            _ => return Err(format!("no such tag: @{tag}")),
        }
        Ok(())
    }
}

fn protocol_of(text: &str) -> Result<Protocol, String> {
    match text {
        "2" => Ok(Protocol::Resp2),
        "3" => Ok(Protocol::Resp3),
        _ => Err(format!("no such protocol: {text}")),
    }
}

/// Reads the text of a case file; `path` is for messages.
pub fn parse(path: &Path, text: &str) -> Result<CaseFile, ParseError> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fail = |reason: String| ParseError { path: path.into(), line: index + 1, reason };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            if cases.iter().any(|case| case.name == name) {
                return Err(fail(format!("two cases are called {name}")));
            }
            cases.push(Case { name: name.into(), line: index + 1, ..Case::default() });
            continue;
        }
        let case = cases.last_mut().ok_or_else(|| fail("a statement before the first ==".into()))?;
        if let Some(tag) = line.strip_prefix('@') {
            case.tag(tag).map_err(fail)?;
        } else {
            let (connection, action) = statement(line).map_err(fail)?;
            case.steps.push(Step { line: index + 1, connection, action, source: line.into() });
        }
    }
    Ok(CaseFile { path: path.into(), cases })
}

fn statement(line: &str) -> Result<(usize, Action), String> {
    let digits = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len());
    if let Some(count) = line.strip_prefix("blocked ") {
        return Ok((1, Action::AwaitBlocked(count.trim().parse().map_err(|_| "blocked COUNT")?)));
    }
    let connection =
        if digits == 0 { 1 } else { line[..digits].parse().map_err(|_| "a connection number")? };
    let text = line[digits..].trim_start();
    let (operator, rest) = text.split_once(' ').unwrap_or((text, ""));
    let action = match operator {
        ">" => Action::Send(rest.into()),
        "?>" => Action::Poll(rest.into()),
        ">>" => Action::SendRaw(words::unescape(rest.trim())?),
        "<" => Action::Expect(Pattern::parse(rest)?, None),
        "<2" => Action::Expect(Pattern::parse(rest)?, Some(Protocol::Resp2)),
        "<3" => Action::Expect(Pattern::parse(rest)?, Some(Protocol::Resp3)),
        "<<" => Action::ExpectRaw(words::unescape(rest.trim())?),
        "close" => Action::Close,
        "half-close" => Action::HalfClose,
        _ => return Err(format!("no such statement: {operator}")),
    };
    Ok((connection, action))
}

/// Every `*.case` below `directory`, by name.
pub fn load_directory(directory: &Path) -> Result<Vec<CaseFile>, ParseError> {
    let unreadable = |path: &Path, error: std::io::Error| ParseError {
        path: path.into(),
        line: 0,
        reason: error.to_string(),
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| unreadable(directory, error))? {
        let path = entry.map_err(|error| unreadable(directory, error))?.path();
        if path.extension().is_some_and(|extension| extension == "case") {
            paths.push(path);
        }
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
        parse(path, &text)
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read() {
        let text =
            "# c\n== one\n@since 7.2\n@config a \"b c\"\n> SET k v\n< +OK\n2<3 [a]\nblocked 1\n2 close\n";
        let file = parse(Path::new("x.case"), text).unwrap();
        let case = &file.cases[0];
        assert_eq!(case.config, [("a".to_string(), "b c".to_string())]);
        assert_eq!(case.steps.len(), 5);
        assert_eq!(case.steps[4].connection, 2);
        let target = |kind, version, modules: &[&str]| Target {
            kind,
            version,
            modules: modules.iter().map(|name| (*name).into()).collect(),
        };
        assert!(!case.applies_to(&target(TargetKind::Redis, (7, 0), &[])));
        assert!(case.applies_to(&target(TargetKind::Martlet, (0, 1), &[])));
        let of_module = parse(Path::new("x.case"), "== one\n@module ReJSON\n").unwrap();
        assert!(!of_module.cases[0].applies_to(&target(TargetKind::Redis, (7, 4), &["bf"])));
        assert!(of_module.cases[0].applies_to(&target(TargetKind::Redis, (7, 4), &["bf", "ReJSON"])));
    }

    #[test]
    fn mistakes_point_at_their_line() {
        for (text, line) in [("> PING\n", 1), ("== a\n< [x\n", 2), ("== a\n== a\n", 2), ("== a\n@what\n", 2)]
        {
            assert_eq!(parse(Path::new("x.case"), text).unwrap_err().line, line, "{text}");
        }
    }
}
