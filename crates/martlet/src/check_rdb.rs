//! `martlet check-rdb`, also by the name redis-check-rdb: reads an RDB file to its end and reports its first
//! fault, with the place.
//!
//! It prints redis-check-rdb's text, as far as scripts read that, and exits with its status.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use martlet_values::Limits;
use martlet_values::file::split::Splitter;
use martlet_values::file::{FileError, Item, ReadOptions};

/// The findings so far.
#[derive(Default)]
struct Seen {
    keys: u64,
    expires: u64,
    expired: u64,
    db: Option<u64>,
    key: Vec<u8>,
}

impl Seen {
    fn item(&mut self, item: Item, offset: u64, now_ms: i64) {
        match item {
            Item::Aux { name, text } => println!(
                "[offset {offset}] AUX FIELD {} = '{}'",
                String::from_utf8_lossy(&name),
                String::from_utf8_lossy(&text)
            ),
            Item::Library(code) => {
                let first_line = code.split(|&byte| byte == b'\n').next().unwrap_or_default();
                println!("[offset {offset}] LIBRARY {}", String::from_utf8_lossy(first_line));
            }
            Item::SlotImport(import) => {
                let name = String::from_utf8_lossy(&import.name);
                println!("[offset {offset}] SLOT IMPORT {name} {:?}", import.ranges);
            }
            Item::ModuleAux { name } => println!("[offset {offset}] MODULE AUX for: {name}"),
            Item::Record(record) => {
                if self.db != Some(record.db) {
                    println!("[offset {offset}] Selecting DB ID {}", record.db);
                    self.db = Some(record.db);
                }
                self.keys += 1;
                self.expires += u64::from(record.expiry_ms.is_some());
                self.expired += u64::from(record.expiry_ms.is_some_and(|at_ms| at_ms < now_ms));
                self.key = record.key;
            }
        }
    }

    fn print(&self) {
        println!("[info] {} keys read", self.keys);
        println!("[info] {} expires", self.expires);
        println!("[info] {} already expired", self.expired);
    }
}

/// What there is besides the file.
const HELP: &str = "\
Checks that an RDB file is whole, and summarises its content.

Options:
  -h, --help       this text
  -v, --version    the version
";

/// Runs the tool with the arguments behind its name. Returns the exit status: 0 for a valid file.
pub fn main(program: &str, arguments: &[OsString]) -> i32 {
    let [path] = arguments else {
        eprintln!("Usage: {program} <rdb-file-name>");
        return 1;
    };
    if path == "-h" || path == "--help" {
        print!("Usage: {program} <rdb-file-name>\n{HELP}");
        return 0;
    }
    if path == "-v" || path == "--version" {
        println!("{program} {}", env!("CARGO_PKG_VERSION"));
        return 0;
    }
    match check(Path::new(path)) {
        Ok(end) => i32::from(end.is_none()),
        Err(error) => {
            eprintln!("Cannot open file '{}': {error}", path.to_string_lossy());
            1
        }
    }
}

/// Where the file's RDB part ends, if it is valid; a fault has been printed.
///
/// # Errors
/// The file cannot be opened.
pub fn check(path: &Path) -> std::io::Result<Option<u64>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    // A clock before 1970 finds nothing expired.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64);
    println!("[offset 0] Checking RDB file {}", path.display());
    let mut seen = Seen::default();
    let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
    let result = read(file, len, options, |item, offset| seen.item(item, offset, now_ms));
    match &result {
        Ok(end) => {
            println!("[offset {end}] Checksum OK");
            println!("[offset {end}] \\o/ RDB looks OK! \\o/");
        }
        Err(damage) => {
            println!("--- RDB ERROR DETECTED ---");
            println!("[offset {}] {}", damage.offset, damage.error);
            if seen.keys > 0 {
                println!("[additional info] Behind key '{}'", String::from_utf8_lossy(&seen.key));
            }
        }
    }
    seen.print();
    Ok(result.ok())
}

/// Passes on the RDB part of a file of `len` bytes; returns where that ends.
fn read(
    file: File,
    len: u64,
    options: ReadOptions,
    mut found: impl FnMut(Item, u64),
) -> Result<u64, FileError> {
    let mut splitter = Splitter::new(file, len, options)?;
    while let Some(item) = splitter.next_item()? {
        found(item, splitter.offset());
    }
    splitter.verify(0).map(|()| splitter.offset())
}
