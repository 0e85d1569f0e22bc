//! `./x memory-shapes`: resident bytes per element by shape of the data, beside peers.
//!
//! Each server is started fresh for each shape, with one I/O thread and nothing saved; its resident memory
//! once it is at rest, before and after the fill, is divided by the elements. Keys have 14 bytes.

use martlet_testkit::load::{Load, Template, Until};
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use xtask::run::{Outcome, built, in_root};

use crate::cost::process::{Measured, raise_open_files};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Requests under way while a server is filled.
const PIPELINE: u64 = 640;
/// Allocators give freed memory back after a while.
const SETTLING: Duration = Duration::from_secs(4);
/// Most value bytes of a data set whose values have one length.
const VALUES_MOST_BYTES: u64 = 256 << 20;
/// By how much a quick run shrinks its data sets.
const QUICK_DIVISOR: u64 = 20;
/// Idle connections.
const CONNECTIONS: usize = 1_000;
/// Lengths between 100 bytes and 64 KB, as many to each doubling.
const LENGTHS: u32 = 56;

/// The measurements to take.
#[derive(clap::Args)]
pub struct Options {
    /// Shapes by prefix of their names, separated by commas; all when absent.
    #[arg(long, default_value = "")]
    shapes: String,
    /// Smaller data sets: to see that everything runs, not to be published.
    #[arg(long)]
    quick: bool,
    /// Our server's program.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    ours: PathBuf,
    /// The peers' programs, each as NAME=PROGRAM.
    #[arg(long, default_value = "redis=redis-server")]
    peer: Vec<String>,
    /// Core of the servers.
    #[arg(long, default_value_t = 0)]
    core: usize,
    /// The table is written here.
    #[arg(long, default_value_os_t = in_root("results/memory-shapes.txt"))]
    output: PathBuf,
}

/// The data that a server holds while it is measured.
struct Shape {
    name: String,
    /// The figure's unit.
    per: &'static str,
    /// Requests that build it, and how many of each.
    fills: Vec<(String, u64)>,
    /// Requests that build a second server's data, whose memory is subtracted.
    less: Vec<(String, u64)>,
    /// How many elements there are.
    elements: u64,
}

/// Measures and writes the table.
pub fn run(options: &Options) -> Outcome {
    raise_open_files();
    let mut servers: Vec<(String, PathBuf)> = vec![("martlet".into(), built(&options.ours)?)];
    for peer in &options.peer {
        let (name, program) = peer.split_once('=').ok_or("--peer is NAME=PROGRAM")?;
        servers.push((name.into(), program.into()));
    }
    let mut text = title(&servers);
    let chosen: Vec<&str> = options.shapes.split(',').filter(|name| !name.is_empty()).collect();
    let is_chosen = |name: &str| chosen.is_empty() || chosen.iter().any(|prefix| name.starts_with(prefix));
    let mut add = |name: &str, per: &str, figures: Vec<f64>| -> Result<()> {
        let line = line(name, per, &figures);
        eprint!("{line}");
        text.push_str(&line);
        Ok(())
    };
    for shape in shapes(if options.quick { QUICK_DIVISOR } else { 1 }) {
        if is_chosen(&shape.name) {
            let measure = |(_, program): &(String, PathBuf)| bytes_per_element(options, program, &shape);
            let figures = servers.iter().map(measure).collect::<Result<Vec<f64>>>()?;
            add(&shape.name, shape.per, figures)?;
        }
    }
    for (name, per, measure) in SERVERS {
        if is_chosen(name) {
            let figures = servers.iter().map(|(_, program)| measure(options, program));
            add(name, per, figures.collect::<Result<Vec<f64>>>()?)?;
        }
    }
    print!("{text}");
    Ok(std::fs::write(&options.output, text)?)
}

/// A measurement of a server without data: name, unit, method.
type ServerRow = (&'static str, &'static str, fn(&Options, &Path) -> Result<f64>);

const SERVERS: &[ServerRow] =
    &[("empty server", "KB", empty_kilobytes), ("idle connection", "connection", bytes_per_connection)];

fn title(servers: &[(String, PathBuf)]) -> String {
    let mut text = String::from(
        "Resident bytes per element, by shape of the data. Written by ./x memory-shapes: each server is started\n\
         fresh for each shape, one I/O thread, nothing saved; the growth of its resident memory (VmRSS) by the\n\
         fill, at rest, divided by the elements. Keys have 14 bytes. Values of mixed lengths: 56 lengths from\n\
         100 B to 64 KB, as many to each doubling; growth divided by (length + 24 B), on average 1.06 at most.\n\n",
    );
    let names: Vec<String> = servers.iter().map(|(name, _)| format!("{name:>12}")).collect();
    let _ = writeln!(text, "{:28} {:14}{}  ours / leanest peer", "shape", "per", names.concat());
    text
}

fn line(name: &str, per: &str, figures: &[f64]) -> String {
    let shown = |figure: &f64| match figure {
        value if *value >= 100.0 => format!("{value:>12.0}"),
        value if *value >= 10.0 => format!("{value:>12.1}"),
        value => format!("{value:>12.3}"),
    };
    let shown: Vec<String> = figures.iter().map(shown).collect();
    let leanest = figures.iter().skip(1).copied().fold(f64::INFINITY, f64::min);
    let ratio = figures.first().map_or(0.0, |ours| ours / leanest);
    format!("{name:28} {per:14}{}  {ratio:.2}\n", shown.concat())
}

/// The shapes, their sizes divided.
fn shapes(divisor: u64) -> Vec<Shape> {
    let keys = 1_000_000 / divisor;
    let simple = |name: &str, per: &'static str, template: String, requests: u64, elements: u64| Shape {
        name: name.into(),
        per,
        fills: vec![(template, requests)],
        less: Vec::new(),
        elements,
    };
    let five = |request: &str, element: &str| {
        let elements: Vec<String> = (0..5).map(|at| element.replace('#', &at.to_string())).collect();
        format!("{request} {{key sequence {keys}}} {}", elements.join(" "))
    };
    let hundred = |name: &str, template: &str| {
        simple(name, "element", template.replace('#', "{key sequence 100}"), keys, keys)
    };
    let mut shapes = Vec::new();
    for length in [8, 16, 32, 64, 100, 128, 256, 512, 1_000, 1_024, 2_048, 4_096, 16_384, 65_536] {
        let count = (VALUES_MOST_BYTES / length).min(1_000_000) / divisor;
        let template = format!("SET {{key sequence {count}}} {{value {length}}}");
        shapes.push(simple(&format!("string of {length} B"), "key", template, count, count));
    }
    shapes.push(mixed_lengths(divisor));
    shapes.push(simple(
        "integer",
        "key",
        format!("SET {{key sequence {keys}}} {{rand 1000000000}}"),
        keys,
        keys,
    ));
    shapes.push(simple("hash of 5", "key", five("HSET", "field# {value 8}"), keys, keys));
    shapes.push(simple("list of 5", "key", five("RPUSH", "{value 8}"), keys, keys));
    shapes.push(simple("set of 5", "key", five("SADD", "{value 8}"), keys, keys));
    shapes.push(simple("sorted set of 5", "key", five("ZADD", "{rand 1000} {value 8}"), keys, keys));
    shapes.push(hundred("list of 10,000 x 16 B", "RPUSH # {value 16}"));
    shapes.push(hundred("hash of 10,000", "HSET # {value 16} {value 16}"));
    shapes.push(hundred("set of 10,000", "SADD # {value 16}"));
    shapes.push(hundred("set of 10,000 numbers", "SADD # {count 1000000}"));
    let of_500 = format!("SADD {{key sequence {}}} {{count 1000000}}", keys / 500);
    shapes.push(simple("set of 500 numbers", "element", of_500, keys, keys));
    shapes.push(hundred("sorted set of 10,000", "ZADD # {rand 1000000} {value 16}"));
    shapes.push(hundred("stream of 10,000", "XADD # * field {value 16}"));
    let set = |rest: &str| (format!("SET {{key sequence {keys}}} {{value 8}}{rest}"), keys);
    shapes.push(Shape {
        name: "time to live".into(),
        per: "key",
        fills: vec![set(" EX 1{rand 99999}")],
        less: vec![set("")],
        elements: keys,
    });
    shapes
}

/// Values of all lengths alike: the elements are their bytes and 24 for each.
fn mixed_lengths(divisor: u64) -> Shape {
    let doublings = (65_536.0f64 / 100.0).log2();
    let lengths =
        (0..LENGTHS).map(|at| (100.0 * (doublings * f64::from(at) / f64::from(LENGTHS)).exp2()) as u64);
    let each_bytes = VALUES_MOST_BYTES * 2 / u64::from(LENGTHS) / divisor;
    let (mut fills, mut elements) = (Vec::new(), 0);
    for length in lengths {
        let count = (each_bytes / length).max(1);
        fills.push((format!("SET {{key sequence {count}}}{length} {{value {length}}}"), count));
        elements += count * (length + 24);
    }
    Shape { name: "strings of mixed lengths".into(), per: "byte", fills, less: Vec::new(), elements }
}

fn start(options: &Options, program: &Path) -> Result<Measured> {
    let is_ours = program == options.ours;
    let first: &[&str] = if is_ours { &["server"] } else { &[] };
    let settings = ["--io-threads", "1", "--appendonly", "no", "--save", "", "--maxclients", "20000"];
    Measured::start("", program, &[first, &settings].concat(), options.core)
}

/// Resident bytes once nothing moves any more.
fn bytes_at_rest(server: &Measured) -> Result<u64> {
    server.client()?.command(&["PING"])?;
    std::thread::sleep(SETTLING);
    server.resident_bytes()
}

fn growth(options: &Options, program: &Path, fills: &[(String, u64)]) -> Result<f64> {
    if fills.is_empty() {
        return Ok(0.0);
    }
    let server = start(options, program)?;
    let before = bytes_at_rest(&server)?;
    for (template, requests) in fills {
        let mut load = Load::connect(server.address(), 1, PIPELINE)?;
        let done = load.run(&mut Template::parse(template, 1)?, Until::Requests(*requests))?;
        if done.errors > 0 {
            return Err(format!("{template}: {} answered with errors", done.errors).into());
        }
    }
    Ok(bytes_at_rest(&server)? as f64 - before as f64)
}

fn bytes_per_element(options: &Options, program: &Path, shape: &Shape) -> Result<f64> {
    let bytes = growth(options, program, &shape.fills)? - growth(options, program, &shape.less)?;
    Ok(bytes / shape.elements as f64)
}

fn empty_kilobytes(options: &Options, program: &Path) -> Result<f64> {
    Ok(bytes_at_rest(&start(options, program)?)? as f64 / 1024.0)
}

fn bytes_per_connection(options: &Options, program: &Path) -> Result<f64> {
    let server = start(options, program)?;
    let before = bytes_at_rest(&server)?;
    let mut clients = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut client = server.client()?;
        client.command(&["PING"])?;
        clients.push(client);
    }
    Ok((bytes_at_rest(&server)? as f64 - before as f64) / clients.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_template_and_has_elements() {
        for divisor in [1, QUICK_DIVISOR] {
            let shapes = shapes(divisor);
            for (template, requests) in shapes.iter().flat_map(|shape| shape.fills.iter().chain(&shape.less))
            {
                assert!(Template::parse(template, 1).is_ok() && *requests > 0, "{template}");
            }
            assert!(shapes.iter().all(|shape| shape.elements > 0));
        }
    }

    #[test]
    fn ours_is_compared_with_the_leanest() {
        assert!(line("list", "element", &[15.0, 30.0, 20.0]).ends_with("0.75\n"));
    }
}
