//! `martlet check-aof`, also by the name redis-check-aof: reads an append-only file to its end, says up to
//! where it is whole, and cuts off the rest if asked to.
//!
//! Standard output and the exit status are those of redis-check-aof; further notes go to standard error.
//! Invariant: only the last file is ever cut, and only after a yes, or at a time that was asked for; the
//! bytes that are cut off stay beside it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use martlet_base::disk::{RealDisk, remnant};
use martlet_journal::aof::{FileInfo, Manifest};

use crate::check_rdb;

/// Longest line of a number, in bytes; a longer one is malformed.
const NUMBER_MAX_BYTES: u64 = 127;
/// Longest line of an annotation or a manifest, in bytes.
const LINE_MAX_BYTES: u64 = 1024;

/// The request.
struct Task {
    /// The name that the tool was called by.
    program: String,
    fix: bool,
    /// Unix seconds: later entries are cut off.
    until_s: Option<i64>,
}

/// What became of a file.
#[derive(Copy, Clone, PartialEq)]
enum Verdict {
    Whole,
    Empty,
    Cut,
    CutAtTime,
}

/// The reason has been printed.
struct Aborted;

macro_rules! abort {
    ($($text:tt)*) => {{
        println!($($text)*);
        return Err(Aborted);
    }};
}

/// What each option does.
const HELP: &str = "\
Shows up to where an append-only file is whole. Of several files, which a manifest names, only the last may be cut.

Options:
  --fix                       cut off the incomplete end, after a question
  --truncate-to-timestamp TIME
                              cut off what was written after TIME, in Unix seconds
  -h, --help                  this text
  -v, --version               the version
";

fn usage(program: &str) -> String {
    format!("Usage: {program} [--fix|--truncate-to-timestamp $timestamp] <file.manifest|file.aof>\n")
}

/// Runs the tool with the arguments behind its name. Returns the exit status: 0 for a file that is valid, or
/// has been repaired.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    let texts: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let (fix, until_s) = match texts.as_slice() {
        ["-v" | "--version"] => {
            println!("{program} {}", env!("CARGO_PKG_VERSION"));
            return 0;
        }
        ["-h" | "--help"] => {
            print!("{}\n{HELP}", usage(program));
            return 0;
        }
        [_] => (false, None),
        ["--fix", _] => (true, None),
        ["--truncate-to-timestamp", time, _] => match time.parse() {
            Ok(0) => (false, None),
            Ok(time) => (false, Some(time)),
            Err(_) => {
                println!("Invalid timestamp, aborting...");
                return 1;
            }
        },
        _ => {
            print!("{}", usage(program));
            return 1;
        }
    };
    let path = Path::new(arguments.last().map_or("".as_ref(), OsString::as_os_str));
    i32::from(Task { program: program.to_owned(), fix, until_s }.check(path).is_err())
}

impl Task {
    fn check(&self, path: &Path) -> Result<(), Aborted> {
        let shown = path.display().to_string();
        if is_manifest(path)? {
            return self.check_files(path);
        }
        let is_rdb = is_rdb(path)?;
        println!("Start checking Old-Style AOF");
        let verdict = self.check_file(&shown, path, true, is_rdb)?;
        self.print(verdict, &shown, "AOF");
        Ok(())
    }

    /// Checks the files of a manifest.
    fn check_files(&self, path: &Path) -> Result<(), Aborted> {
        println!("Start checking Multi Part AOF");
        let text = std::fs::read(path);
        let text = text.or_else(|error| abort!("Cannot open file {}: {}", path.display(), reason(&error)))?;
        let manifest = Manifest::parse(&String::from_utf8_lossy(&text)).map_err(|error| {
            eprintln!("\n*** FATAL AOF MANIFEST FILE ERROR ***");
            eprintln!("Reading the manifest file, at line {}\n>>> '{}'", error.line, error.text);
            eprintln!("{}", error.reason);
            Aborted
        })?;
        let place = |file: &FileInfo| path.parent().unwrap_or(Path::new("")).join(&file.name);
        if let Some(base) = &manifest.base {
            let is_rdb = is_rdb(&place(base))?;
            println!("Start to check BASE AOF ({} format).", if is_rdb { "RDB" } else { "RESP" });
            let verdict = self.check_file(&base.name, &place(base), manifest.is_last(base), is_rdb)?;
            self.print(verdict, &base.name, "BASE AOF");
        }
        if !manifest.increments.is_empty() {
            println!("Start to check INCR files.");
        }
        for file in &manifest.increments {
            let verdict = self.check_file(&file.name, &place(file), manifest.is_last(file), false)?;
            self.print(verdict, &file.name, "INCR AOF");
        }
        println!("All AOF files and manifest are valid");
        Ok(())
    }

    fn print(&self, verdict: Verdict, name: &str, kind: &str) {
        match verdict {
            Verdict::Whole => println!("{kind} {name} is valid"),
            Verdict::Empty => println!("{kind} {name} is empty"),
            Verdict::Cut => println!("Successfully truncated AOF {name}"),
            Verdict::CutAtTime => {
                println!("Successfully truncated AOF {name} to timestamp {}", self.until_s.unwrap_or(0));
            }
        }
    }

    fn check_file(&self, name: &str, path: &Path, is_last: bool, is_rdb: bool) -> Result<Verdict, Aborted> {
        let open = std::fs::OpenOptions::new().read(true).write(true).open(path);
        let file = open.or_else(|error| {
            abort!("Cannot open file {}: {}, aborting...", path.display(), reason(&error))
        })?;
        let size = file.metadata().or_else(|_| abort!("Cannot stat file: {name}, aborting..."))?.len();
        if size == 0 {
            return Ok(Verdict::Empty);
        }
        let mut begin = 0;
        if is_rdb {
            match check_rdb::check(path) {
                Ok(Some(end)) => begin = end,
                _ => abort!("RDB preamble of AOF file is not sane, aborting."),
            }
            println!("RDB preamble is OK, proceeding with AOF tail...");
        }
        let failed = || {
            println!("Failed to read from AOF {name}, aborting...");
            Aborted
        };
        let mut scan = Scan::new(&file, begin).map_err(|_| failed())?;
        let end = scan.run(name, &path.display().to_string(), self.until_s)?;
        if let End::Late { at, time } = end {
            return self.cut_at_time(path, at, time, is_last);
        }
        if !scan.error.is_empty() {
            println!("{}", scan.error);
        }
        let (whole, rest) = (scan.whole, size - scan.whole.min(size));
        if let (0, Some(time)) = (rest, self.until_s) {
            println!("Truncate nothing in AOF {name} to timestamp {time}");
            return Ok(Verdict::Whole);
        }
        println!(
            "AOF analyzed: filename={name}, size={size}, ok_up_to={whole}, ok_up_to_line={}, diff={rest}",
            scan.line
        );
        match (rest, self.fix) {
            (0, _) => Ok(Verdict::Whole),
            (_, false) => abort!("AOF {name} is not valid. Use the --fix option to try fixing it."),
            _ if !is_last => abort!("Failed to truncate AOF {name} because it is not the last file"),
            _ => cut_if_wanted(name, path, size, whole),
        }
    }

    /// Cuts a file off at an annotation with a later time than is wanted.
    fn cut_at_time(&self, path: &Path, at: u64, time: i64, is_last: bool) -> Result<Verdict, Aborted> {
        let name = path.display();
        if at == 0 {
            abort!("AOF {name} has nothing before timestamp {time}, aborting...");
        }
        if !is_last {
            println!(
                "Failed to truncate AOF {name} to timestamp {time} to offset {at} because it is not the last file."
            );
            abort!(
                "If you insist, please delete all files after this file according to the manifest file and delete the corresponding records in manifest file manually. Then re-run {}.",
                self.program
            );
        }
        match cut_off(path, at) {
            Ok(()) => Ok(Verdict::CutAtTime),
            Err(_) => abort!("Failed to truncate AOF {name} to timestamp {time}"),
        }
    }
}

/// Cuts a file off, and reports the name under which the end is kept, or why it is not.
fn cut_off(path: &Path, len: u64) -> io::Result<()> {
    let cut = remnant::cut_off(&RealDisk, path, len).inspect_err(|error| eprintln!("{}", reason(error)))?;
    if let Some(kept) = cut.kept {
        eprintln!("The bytes cut off are kept as {}", kept.display());
    }
    if let Some(error) = cut.refusal {
        eprintln!("The bytes cut off are not kept: {}", reason(&error));
    }
    for old in cut.removed {
        eprintln!("Removed {}, the oldest of the ends that were cut off", old.display());
    }
    Ok(())
}

/// Cuts off what is behind `whole`, after a yes.
fn cut_if_wanted(name: &str, path: &Path, size: u64, whole: u64) -> Result<Verdict, Aborted> {
    let rest = size - whole;
    println!("This will shrink the AOF {name} from {size} bytes, with {rest} bytes, to {whole} bytes");
    print!("Continue? [y/N]: ");
    let _ = io::stdout().flush();
    let mut answer = [0];
    let is_wanted = matches!(io::stdin().read(&mut answer), Ok(1)) && answer[0].eq_ignore_ascii_case(&b'y');
    if !is_wanted {
        abort!("Aborting...");
    }
    match cut_off(path, whole) {
        Ok(()) => Ok(Verdict::Cut),
        Err(_) => abort!("Failed to truncate AOF {name}"),
    }
}

fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn open(path: &Path) -> Result<BufReader<File>, Aborted> {
    let file = File::open(path);
    Ok(BufReader::new(
        file.or_else(|error| abort!("Cannot open file {}: {}", path.display(), reason(&error)))?,
    ))
}

/// Whether the file's first lines are those of a manifest.
fn is_manifest(path: &Path) -> Result<bool, Aborted> {
    let mut file = open(path)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        match file.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line) {
            Err(_) => abort!("Cannot read file: {}", path.display()),
            Ok(_) if line.starts_with(b"#") => {}
            Ok(_) => return Ok(line.starts_with(b"file")),
        }
    }
}

/// Whether the file begins as an RDB file does.
fn is_rdb(path: &Path) -> Result<bool, Aborted> {
    let mut begin = [0; 8];
    let is_long = open(path)?.read_exact(&mut begin).is_ok();
    Ok(is_long && martlet_values::file::has_signature(&begin))
}

/// Why a scan has ended.
enum End {
    /// Nothing more can be read.
    Here,
    /// An annotation says a later time than the one wanted.
    Late { at: u64, time: i64 },
}

/// Reading on is of no use.
enum Stop {
    Io,
    /// The bytes are not a command, or only a part of one; `error` may say more.
    Unreadable,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Stop {
        Stop::Io
    }
}

/// A file of commands being read.
struct Scan<'f> {
    file: BufReader<&'f File>,
    offset: u64,
    /// Where the present entry begins.
    begin: u64,
    /// Lines so far, from 1.
    line: u64,
    /// The end of the last command that is no part of an open transaction.
    whole: u64,
    /// How many MULTI are open: 1 at most in a sound file.
    open: i64,
    error: String,
}

impl<'f> Scan<'f> {
    fn new(mut file: &'f File, offset: u64) -> io::Result<Scan<'f>> {
        file.seek(SeekFrom::Start(offset))?;
        let error = String::new();
        Ok(Scan { file: BufReader::new(file), offset, begin: 0, line: 1, whole: offset, open: 0, error })
    }

    /// Reads up to the end, to an unreadable entry, or to an entry written after `until_s`.
    fn run(&mut self, name: &str, path: &str, until_s: Option<i64>) -> Result<End, Aborted> {
        let failed = || {
            println!("Failed to read from AOF {name}, aborting...");
            Aborted
        };
        loop {
            if self.open == 0 {
                self.whole = self.offset;
            }
            let first = self.file.fill_buf().map_err(|_| failed())?.first().copied();
            match first {
                None => break,
                Some(b'#') => {
                    let at = self.offset;
                    let line = self.line(LINE_MAX_BYTES - 1).map_err(|_| failed())?;
                    let Some(until_s) = until_s else { continue };
                    let Some(text) = line.strip_prefix(b"#TS:") else { continue };
                    match leading_number(text) {
                        (time, [b'\r', ..]) if time <= until_s => {}
                        (_, [b'\r', ..]) => return Ok(End::Late { at, time: until_s }),
                        _ => abort!("Invalid timestamp annotation"),
                    }
                }
                Some(b'*') => match self.command(path) {
                    Ok(()) => {}
                    Err(Stop::Io) => return Err(failed()),
                    Err(Stop::Unreadable) => break,
                },
                Some(_) => {
                    println!("AOF {name} format error");
                    return Ok(End::Here);
                }
            }
        }
        if self.open != 0 && self.error.is_empty() {
            self.unreadable("Reached EOF before reading EXEC for MULTI".into());
        }
        Ok(End::Here)
    }

    fn unreadable(&mut self, text: String) -> Stop {
        self.error = format!("0x{:>16x}: {text}", self.begin);
        Stop::Unreadable
    }

    /// The next line with its end, or as much of it as may be.
    fn line(&mut self, most: u64) -> io::Result<Vec<u8>> {
        self.begin = self.offset;
        let mut line = Vec::new();
        self.offset += self.file.by_ref().take(most).read_until(b'\n', &mut line)? as u64;
        Ok(line)
    }

    fn newline(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        if !bytes.starts_with(b"\r\n") {
            let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
            return Err(self.unreadable(format!("Expected \\r\\n, got: {:02x}{:02x}", byte(0), byte(1))));
        }
        self.line += 1;
        Ok(())
    }

    fn number(&mut self, prefix: u8) -> Result<i64, Stop> {
        let line = self.line(NUMBER_MAX_BYTES)?;
        match line.split_first() {
            None => Err(Stop::Unreadable),
            Some((&first, _)) if first != prefix => {
                let (wanted, got) = (char::from(prefix), char::from(first));
                Err(self.unreadable(format!("Expected prefix '{wanted}', got: '{got}'")))
            }
            Some((_, text)) => {
                let (number, rest) = leading_number(text);
                self.newline(rest)?;
                Ok(number)
            }
        }
    }

    /// Reads an argument and gives its first bytes, whatever its length.
    fn argument(&mut self) -> Result<Vec<u8>, Stop> {
        const KEPT_BYTES: usize = 8;
        let len = self.number(b'$')?;
        let Some(wanted) = u64::try_from(len).ok().filter(|&len| len <= i64::MAX as u64 - 2) else {
            let text = format!("Expected to read string of {len} bytes, which is not in the suitable range");
            return Err(self.unreadable(text));
        };
        self.begin = self.offset;
        let mut kept = Vec::new();
        self.file.by_ref().take(wanted.min(KEPT_BYTES as u64)).read_to_end(&mut kept)?;
        let behind = wanted - kept.len() as u64;
        let mut got = kept.len() as u64;
        if got == wanted.min(KEPT_BYTES as u64) {
            got += io::copy(&mut self.file.by_ref().take(behind), &mut io::sink())?;
        }
        let mut end = Vec::new();
        if got == wanted {
            self.file.by_ref().take(2).read_to_end(&mut end)?;
        }
        got += end.len() as u64;
        self.offset += got;
        if got < wanted + 2 {
            return Err(self.unreadable(format!("Expected to read {} bytes, got {got} bytes", wanted + 2)));
        }
        self.newline(&end)?;
        Ok(kept)
    }

    fn command(&mut self, path: &str) -> Result<(), Stop> {
        let count = self.number(b'*')?;
        for at in 0..count {
            let argument = self.argument()?;
            if at > 0 {
                continue;
            }
            if argument.eq_ignore_ascii_case(b"multi") {
                self.open += 1;
                if self.open != 1 {
                    return Err(self.unreadable(format!("Unexpected MULTI in AOF {path}")));
                }
            } else if argument.eq_ignore_ascii_case(b"exec") {
                self.open -= 1;
                if self.open != 0 {
                    return Err(self.unreadable(format!("Unexpected EXEC in AOF {path}")));
                }
            }
        }
        Ok(())
    }
}

/// The number that a text begins with, 0 without one, and the rest.
fn leading_number(text: &[u8]) -> (i64, &[u8]) {
    let sign = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let digits = text.iter().skip(sign).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return (0, text);
    }
    let (number, rest) = text.split_at(sign + digits);
    let most = if number.starts_with(b"-") { i64::MIN } else { i64::MAX };
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    (number.unwrap_or(most), rest)
}
