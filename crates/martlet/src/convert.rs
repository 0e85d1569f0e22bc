//! `martlet convert`: an RDB file to another version of the format, or to lines of JSON.
//!
//! The input is read twice, a key at a time: first to its end, so that a damaged file is refused before
//! anything is written and the lowest version that holds the data is known. Invariant: the output has
//! its name only when it is whole.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use martlet_keyspace::Value;
use martlet_values::file::{Access, FileWriter, Item, ReadOptions, Record, read_file};
use martlet_values::payload::VERSION_MIN;
use martlet_values::{
    Error, Export, Form, Limits, Requirement, VERSION_NEWEST, VERSION_OLDEST, VERSION_PATH_HASHES,
    VERSION_VALKEY, export, lowest_version, requirement,
};

const USAGE: &str = "\
Usage: martlet convert IN OUT [--rdb-version N | --json-lines]

Reads the RDB file IN, of any version that is known, and writes OUT:
  --rdb-version N  an RDB file of version N, 6 to 17, or 80 or 81, which are Valkey 9.0's and
                   9.2's; without it the lowest from 10 on that holds the data
  --json-lines     a line of JSON for each key; OUT may be - for the standard output:
                   {\"db\":0,\"key\":KEY,\"type\":\"hash\",\"expiry_ms\":null,\"value\":VALUE}
                   string: TEXT; list, set: [TEXT, ...], of a set [TEXT, ms] for a member that
                   expires; zset: [[TEXT, score], ...];
                   hash: [[TEXT, TEXT], ...] with the expiry time third if a field has one;
                   stream: [[id, TEXT, TEXT, ...], ...], entries alone;
                   pathhash: [[PATH, [[TEXT, TEXT], ...]], ...].
                   A TEXT that is no UTF-8 is {\"hex\":\"...\"}; an infinite score is \"inf\" or \"-inf\";
                   \"idle_s\" or \"frequency\" are there if the file has them.
";

/// The request.
struct Task {
    input: PathBuf,
    output: PathBuf,
    /// The version to write; `None` for the lowest.
    version: Option<u16>,
    is_json: bool,
}

/// The findings of the first reading.
#[derive(Default)]
struct Found {
    aux: Vec<(String, String)>,
    /// Keys and expiring keys of each database.
    totals: BTreeMap<u64, (u64, u64)>,
    /// What not every version holds, with a key that needs it.
    required: Vec<(&'static Requirement, String)>,
    has_libraries: bool,
}

impl Found {
    /// What that version cannot hold, and the lowest one that can.
    fn lacking_in(&self, version: u16) -> Option<(String, u16)> {
        let of_values = self.required.iter().filter(|(requirement, _)| !requirement.is_met_by(version));
        let highest = of_values.max_by_key(|(requirement, _)| requirement.version);
        let of_values = highest.map(|(requirement, key)| {
            (format!("{}, such as '{key}'", requirement.values), requirement.version)
        });
        let of_libraries = self.has_libraries && version < VERSION_MIN;
        of_values.or_else(|| of_libraries.then(|| ("libraries of functions".into(), VERSION_MIN)))
    }
}

/// Runs the tool with the arguments behind its name. Returns the exit status: 0 for a file that was
/// converted.
pub fn main(arguments: &[OsString]) -> i32 {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{USAGE}");
        return 0;
    }
    let Some(task) = parse(arguments) else {
        eprint!("{USAGE}");
        return 1;
    };
    match convert(&task) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("martlet convert: {message}");
            1
        }
    }
}

fn parse(arguments: &[OsString]) -> Option<Task> {
    let (mut paths, mut version, mut is_json) = (Vec::new(), None, false);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("--json-lines") => is_json = true,
            Some("--rdb-version") => {
                let number = arguments.next()?.to_str()?.parse().ok()?;
                let is_known = |number: &u16| {
                    (VERSION_OLDEST..=VERSION_NEWEST).contains(number)
                        || [VERSION_VALKEY, VERSION_PATH_HASHES].contains(number)
                };
                version = Some(number).filter(is_known);
                version?;
            }
            Some(option) if option.starts_with("--") => return None,
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let [input, output] = <[PathBuf; 2]>::try_from(paths).ok()?;
    (!is_json || version.is_none()).then_some(Task { input, output, version, is_json })
}

/// Reads the file and passes on its items.
fn read(path: &Path, found: impl FnMut(Item, u64) -> Result<(), Error>) -> Result<(), String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("cannot open {shown}: {error}"))?;
    let len = file.metadata().map_err(|error| format!("cannot read {shown}: {error}"))?.len();
    let options = ReadOptions { verify: true, any_version: false, limits: Limits::default() };
    read_file(file, len, &options, found).map_err(|error| format!("{shown}: {error}"))
}

fn convert(task: &Task) -> Result<(), String> {
    let found = look_through(&task.input)?;
    if let Some(version) = task.version
        && let Some((needs, least)) = found.lacking_in(version)
    {
        return Err(format!("version {version} cannot hold {needs}: that takes version {least}"));
    }
    let shown = task.output.display();
    let failed = |error: io::Error| format!("cannot write {shown}: {error}");
    if task.is_json && task.output == Path::new("-") {
        return write_json(&task.input, &mut io::stdout().lock())?.map_err(failed);
    }
    let mut temporary = task.output.clone().into_os_string();
    temporary.push(format!(".temp-{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let file = File::create(&temporary).map_err(failed)?;
    let written = if task.is_json {
        write_json(&task.input, &mut BufWriter::new(&file))
    } else {
        write_rdb(task, &found, &file)
    };
    let ended = written.and_then(|written| {
        let published = written.and_then(|()| file.sync_all());
        published.and_then(|()| std::fs::rename(&temporary, &task.output)).map_err(failed)
    });
    if ended.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    ended
}

fn look_through(input: &Path) -> Result<Found, String> {
    let mut found = Found::default();
    read(input, |item, _| {
        match item {
            Item::Aux { name, text } => {
                let [name, text] = [name, text].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                found.aux.push((name, text));
            }
            Item::Library(_) => found.has_libraries = true,
            // The converted file has all keys of its source.
            Item::SlotImport(_) => {}
            Item::ModuleAux { name } => {
                eprintln!("martlet convert: data of the module type {name} beside the keys is left out");
            }
            Item::Record(record) => {
                let total = found.totals.entry(record.db).or_default();
                total.0 += 1;
                total.1 += u64::from(record.expiry_ms.is_some());
                if let Some(requirement) = requirement(record.value.view())
                    && found.required.iter().all(|(known, _)| *known != requirement)
                {
                    found.required.push((requirement, String::from_utf8_lossy(&record.key).into_owned()));
                }
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Writes the RDB file; the outer error is the input's.
fn write_rdb(task: &Task, found: &Found, file: &File) -> Result<io::Result<()>, String> {
    let required = found.required.iter().map(|(requirement, _)| *requirement);
    let version = task.version.unwrap_or_else(|| lowest_version(VERSION_MIN, required));
    let aux: Vec<(&str, &str)> =
        found.aux.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut writer = FileWriter::new(file, Form { version, compress: true }, &aux, true);
    let mut db = None;
    read(&task.input, |item, _| {
        let record = match item {
            Item::Record(record) => record,
            Item::Library(code) => {
                writer.write_library(&code);
                return Ok(());
            }
            Item::Aux { .. } | Item::SlotImport(_) | Item::ModuleAux { .. } => return Ok(()),
        };
        if let (true, Some(&(keys, expiring))) = (db != Some(record.db), found.totals.get(&record.db)) {
            writer.database(record.db, keys, expiring);
            db = Some(record.db);
        }
        let Record { db, key, expiry_ms, access, value } = &record;
        let (db, expiry_ms, access) = (*db, *expiry_ms, *access);
        writer.record(&Record { db, key, expiry_ms, access, value: value.view() });
        // The error itself is printed at the end.
        if writer.is_sound() { Ok(()) } else { Err(Error::Interrupted) }
    })
    .or_else(|message| if writer.is_sound() { Err(message) } else { Ok(()) })?;
    Ok(writer.finish().map(|_| ()))
}

/// Writes a line for each key; the outer error is the input's.
fn write_json(input: &Path, out: &mut impl Write) -> Result<io::Result<()>, String> {
    let mut written = Ok(());
    read(input, |item, _| {
        let Item::Record(record) = item else { return Ok(()) };
        written = write_line(out, &record);
        if written.is_ok() { Ok(()) } else { Err(Error::Interrupted) }
    })
    .or_else(|message| if written.is_ok() { Err(message) } else { Ok(()) })?;
    Ok(written.and_then(|()| out.flush()))
}

fn write_line(out: &mut impl Write, record: &Record<Value>) -> io::Result<()> {
    let value = record.value.view();
    write!(out, "{{\"db\":{},\"key\":", record.db)?;
    json(out, |out| out.text(&record.key))?;
    write!(out, ",\"type\":")?;
    json(out, |out| out.text(value.type_name().as_bytes()))?;
    write!(out, ",\"expiry_ms\":")?;
    match record.expiry_ms {
        Some(at_ms) => write!(out, "{at_ms}")?,
        None => write!(out, "null")?,
    }
    match record.access {
        Some(Access::IdleSeconds(idle_s)) => write!(out, ",\"idle_s\":{idle_s}")?,
        Some(Access::Frequency(count)) => write!(out, ",\"frequency\":{count}")?,
        None => {}
    }
    write!(out, ",\"value\":")?;
    json(out, |out| export(value, out))?;
    out.write_all(b"}\n")
}

fn json(out: &mut impl Write, write: impl FnOnce(&mut Export<'_>)) -> io::Result<()> {
    let mut json = Export::new(out);
    write(&mut json);
    json.finish()
}
