//! The one table of options; parsing and the help come from it. Their names and meanings are redis-cli's.

use crate::command::unquote;
use crate::format::{Output, Tables};
use crate::settings::{FromStdin, Mode, Protocol, Settings, Watched};
use martlet_client::uri::Uri;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

type Set = fn(&mut Settings);
type Take = fn(&mut Settings, &OsStr) -> Result<(), String>;

/// What an option does.
enum Act {
    Flag(Set),
    /// With a value, by the name that the help gives it.
    Value(&'static str, Take),
    /// With all following words that are not options, by the name that the help gives them; returns how many
    /// it takes.
    Words(&'static str, TakeWords),
}

type TakeWords = fn(&mut Settings, &[OsString]) -> Result<usize, String>;

struct Opt {
    names: &'static [&'static str],
    act: Act,
    about: &'static str,
}

const fn flag(names: &'static [&'static str], set: Set, about: &'static str) -> Opt {
    Opt { names, act: Act::Flag(set), about }
}

const fn value(names: &'static [&'static str], what: &'static str, take: Take, about: &'static str) -> Opt {
    Opt { names, act: Act::Value(what, take), about }
}

const fn words(
    names: &'static [&'static str],
    what: &'static str,
    take: TakeWords,
    about: &'static str,
) -> Opt {
    Opt { names, act: Act::Words(what, take), about }
}

/// A group's title, and its options.
type Group = (&'static str, &'static [Opt]);

const GROUPS: &[Group] = &[
    ("Connection", CONNECTION),
    ("TLS", TLS),
    ("Commands and output", COMMANDS),
    ("Modes", MODES),
    ("Walks through all keys", KEYS),
    ("Cluster manager", CLUSTER),
];

const CONNECTION: &[Opt] = &[
    value(&["-h"], "HOST", |s, v| set_text(&mut s.host, v), "server's name or address (127.0.0.1)"),
    value(&["-p"], "PORT", |s, v| port(v).map(|port| s.port = port), "server's port (6379)"),
    value(
        &["-s"],
        "SOCKET",
        |s, v| {
            s.socket = Some(v.into());
            Ok(())
        },
        "server's unix socket, instead of host and port",
    ),
    value(&["-u"], "URI", uri, "redis://USER:PASSWORD@HOST:PORT/DB; rediss:// for TLS"),
    value(&["-a", "--pass"], "PASSWORD", password, "password; the variable REDISCLI_AUTH is safer"),
    value(
        &["--user"],
        "NAME",
        |s, v| {
            s.user = Some(v.as_bytes().into());
            Ok(())
        },
        "user to authenticate as, with -a",
    ),
    flag(&["--askpass"], |s| s.asks_password = true, "ask for the password on the terminal"),
    flag(
        &["--no-auth-warning"],
        |s| s.warns_of_password = false,
        "do not warn of a password that others can see",
    ),
    value(
        &["-n"],
        "DB",
        |s, v| {
            s.database = number(v).ok_or("Invalid database number.")?;
            Ok(())
        },
        "database",
    ),
    value(
        &["-t"],
        "SECONDS",
        |s, v| {
            let time = seconds(v).ok_or("Invalid connection timeout for -t.")?;
            s.connect_timeout = Some(time).filter(|time| !time.is_zero());
            Ok(())
        },
        "how long connecting may take (as long as the system lets it)",
    ),
    flag(&["-4"], |s| s.prefers_ipv4 = true, "prefer IPv4 addresses of the name"),
    flag(&["-6"], |s| s.prefers_ipv6 = true, "prefer IPv6 addresses of the name"),
    flag(&["-2"], |s| s.protocol = Protocol::Resp2, "begin with RESP2"),
    flag(&["-3"], |s| s.protocol = Protocol::Resp3, "begin with RESP3"),
    flag(&["-c"], |s| s.cluster = true, "follow a cluster's redirections"),
];

const TLS: &[Opt] = &[
    flag(&["--tls"], |s| s.tls = true, "use TLS"),
    value(
        &["--sni"],
        "HOST",
        |s, v| set_some_text(&mut s.tls_options.sni, v),
        "name to ask for and to verify",
    ),
    value(&["--cacert"], "FILE", |s, v| set_some(&mut s.tls_options.ca_file, v), "trusted roots"),
    value(
        &["--cacertdir"],
        "DIR",
        |s, v| set_some(&mut s.tls_options.ca_directory, v),
        "directory of trusted roots",
    ),
    flag(&["--insecure"], |s| s.tls_options.insecure = true, "accept any certificate"),
    value(&["--cert"], "FILE", |s, v| set_some(&mut s.tls_options.certificate, v), "client's certificate"),
    value(&["--key"], "FILE", |s, v| set_some(&mut s.tls_options.key, v), "client's private key"),
    value(
        &["--tls-ciphers"],
        "LIST",
        |s, v| set_some_text(&mut s.tls_options.ciphers, v),
        "ciphers of TLS 1.2",
    ),
    value(
        &["--tls-ciphersuites"],
        "LIST",
        |s, v| set_some_text(&mut s.tls_options.cipher_suites, v),
        "cipher suites of TLS 1.3",
    ),
];

const COMMANDS: &[Opt] = &[
    value(
        &["-r"],
        "N",
        |s, v| {
            s.repeat = number(v).ok_or("Invalid repeat count.")?;
            Ok(())
        },
        "run the command N times; for ever if N is negative",
    ),
    value(
        &["-i"],
        "SECONDS",
        |s, v| {
            s.interval = seconds(v).ok_or("Invalid interval.")?;
            Ok(())
        },
        "wait between repetitions, screens of a mode, or 100 steps of a scan",
    ),
    flag(&["-x"], |s| s.from_stdin = Some(FromStdin::Last), "read the last argument from standard input"),
    value(
        &["-X"],
        "TAG",
        |s, v| {
            s.from_stdin = Some(FromStdin::Tag(v.as_bytes().into()));
            Ok(())
        },
        "read the argument that is TAG from standard input",
    ),
    value(
        &["-d"],
        "TEXT",
        |s, v| {
            s.style.element_delimiter = v.as_bytes().into();
            Ok(())
        },
        "raw output: separator of elements (a newline)",
    ),
    value(
        &["-D"],
        "TEXT",
        |s, v| {
            s.style.reply_delimiter = v.as_bytes().into();
            Ok(())
        },
        "raw output: end of a reply (a newline)",
    ),
    flag(&["-e"], |s| s.fails_on_error = true, "end with status 1 at an error reply"),
    flag(
        &["--raw"],
        |s| s.style.output = Output::Raw,
        "strings as they are (the default unless to a terminal)",
    ),
    flag(&["--no-raw"], |s| s.style.output = Output::Standard, "for people (the default on a terminal)"),
    flag(&["--human"], human, "for people, with what durations and sizes come to"),
    flag(
        &["--table"],
        |s| {
            json(s, Output::Standard);
            s.style.tables = Tables::All;
        },
        "for people, with lists of maps and the results of searches as tables, over RESP3 unless -2 is given",
    ),
    flag(
        &["--pager"],
        |s| s.pager = Some(true),
        "show replies longer than the screen with PAGER, or less (the default at the prompt)",
    ),
    flag(&["--no-pager"], |s| s.pager = Some(false), "never use a pager"),
    flag(&["--csv"], |s| s.style.output = Output::Csv, "CSV"),
    flag(&["--json"], |s| json(s, Output::Json), "JSON, over RESP3 unless -2 is given"),
    flag(&["--quoted-json"], |s| json(s, Output::QuotedJson), "JSON whose strings are ASCII"),
    flag(&["--quoted-input"], |s| s.quoted_input = true, "the command's words are quoted strings"),
    value(&["--show-pushes"], "YES/NO", show_pushes, "show the server's pushes (yes on a terminal)"),
    flag(&["--verbose"], |s| s.is_verbose = true, "say more: how many slots --cluster rebalance moves"),
];

const MODES: &[Opt] = &[
    value(
        &["--eval"],
        "FILE",
        |s, v| {
            s.mode = Mode::Eval(v.into());
            Ok(())
        },
        "run the Lua script in FILE; then: KEYS , ARGUMENTS",
    ),
    flag(
        &["--ldb"],
        |s| s.debugs = s.debugs.or(Some(false)),
        "with --eval: debug the script; its changes are undone",
    ),
    flag(
        &["--ldb-sync-mode"],
        |s| s.debugs = Some(true),
        "the same on the server's own data, which others wait for",
    ),
    flag(&["--stat"], |s| s.mode = Mode::Stat, "a line of figures each second, or as -i says"),
    value(
        &["--watch"],
        "WHAT",
        |s, v| {
            s.mode = Mode::Watch(match v.as_bytes().strip_prefix(b"info:") {
                Some(_) => Watched::Field(text(v)?["info:".len()..].into()),
                None => Watched::Key(v.as_bytes().into()),
            });
            Ok(())
        },
        "a key's value, or info:FIELD of INFO, each second or as -i says; a plot on a terminal",
    ),
    flag(
        &["--latency"],
        |s| s.mode = Mode::Latency { history: false },
        "measure PINGs; to a pipe one line, after a second or as -i says",
    ),
    flag(
        &["--latency-history"],
        |s| s.mode = Mode::Latency { history: true },
        "the same, a line for each 15 seconds, or as -i says",
    ),
    value(
        &["--latency-percentiles"],
        "P,P...",
        |s, v| {
            s.percentiles = percentiles(text(v)?)?;
            Ok(())
        },
        "with --latency and --latency-history: these percentiles, as 50,99,99.9",
    ),
    flag(&["--latency-dist"], |s| s.mode = Mode::LatencyDistribution, "the same as a spectrum of colours"),
    flag(&["--mono"], |s| s.monochrome = true, "draw the spectrum in greys"),
    value(
        &["--intrinsic-latency"],
        "SECONDS",
        |s, v| {
            let time = number(v).ok_or("Invalid duration for --intrinsic-latency.")?;
            s.mode = Mode::IntrinsicLatency(Duration::from_secs(time));
            Ok(())
        },
        "measure how long this machine keeps a program from running",
    ),
    value(
        &["--lru-test"],
        "KEYS",
        |s, v| {
            s.mode = Mode::LruTest(number(v).ok_or("Invalid number of keys for --lru-test.")?);
            Ok(())
        },
        "a cache's hit rate where 80 % of the requests are for 20 % of the keys",
    ),
    flag(
        &["--replica", "--slave"],
        |s| s.mode = Mode::Replica,
        "print the stream that the server sends its replicas",
    ),
    value(&["--rdb"], "FILE", |s, v| rdb(s, v, false), "save a snapshot, to standard output if FILE is -"),
    value(&["--functions-rdb"], "FILE", |s, v| rdb(s, v, true), "the same, with functions only"),
    flag(&["--pipe"], |s| s.mode = Mode::Pipe, "send RESP requests from standard input"),
    value(
        &["--pipe-timeout"],
        "SECONDS",
        |s, v| {
            s.pipe_timeout = Duration::from_secs(number(v).ok_or("Invalid timeout for --pipe-timeout.")?);
            Ok(())
        },
        "how long --pipe waits for the last replies (30); 0 for ever",
    ),
    value(
        &["--test_hint"],
        "LINE",
        |s, v| {
            s.mode = Mode::Hint(text(v)?.into());
            Ok(())
        },
        "print the hint that LINE has at the prompt",
    ),
    value(
        &["--test_hint_file"],
        "FILE",
        |s, v| {
            s.mode = Mode::HintFile(v.into());
            Ok(())
        },
        "compare hints with those in FILE",
    ),
];

const KEYS: &[Opt] = &[
    flag(&["--bigkeys"], |s| s.mode = Mode::BigKeys, "the longest key of each type"),
    flag(&["--memkeys"], |s| s.mode = Mode::MemKeys, "the key of each type with most memory"),
    value(&["--memkeys-samples"], "N", |s, v| samples(s, v, Mode::MemKeys), "the same; elements to sample"),
    flag(&["--keystats"], |s| s.mode = Mode::KeyStats, "both, and how sizes are distributed"),
    value(&["--keystats-samples"], "N", |s, v| samples(s, v, Mode::KeyStats), "the same; elements to sample"),
    flag(&["--hotkeys"], |s| s.mode = Mode::HotKeys, "the keys that are used most, under an LFU policy"),
    value(
        &["--cursor"],
        "N",
        |s, v| {
            s.scan.cursor = number(v).ok_or("--cursor should be an integer.")?;
            Ok(())
        },
        "where to begin",
    ),
    value(
        &["--top"],
        "N",
        |s, v| {
            s.scan.top = number(v).ok_or("--top should be an integer.")?;
            Ok(())
        },
        "how many of the biggest keys --keystats shows (10)",
    ),
    flag(&["--scan"], |s| s.mode = Mode::Scan, "list all keys"),
    value(
        &["--pattern"],
        "PATTERN",
        |s, v| {
            s.scan.pattern = Some(v.as_bytes().into());
            Ok(())
        },
        "only keys that match",
    ),
    value(
        &["--quoted-pattern"],
        "PATTERN",
        |s, v| {
            let pattern =
                unquote(v.as_bytes()).ok_or("Invalid quoted string specified for --quoted-pattern.")?;
            s.scan.pattern = Some(pattern);
            Ok(())
        },
        "the same; the pattern is a quoted string",
    ),
    value(
        &["--type"],
        "TYPE",
        |s, v| {
            s.scan.kind = Some(v.as_bytes().into());
            Ok(())
        },
        "only keys of this type",
    ),
    value(
        &["--count"],
        "N",
        |s, v| {
            s.scan.count = number(v).filter(|count| *count > 0).ok_or("--count should be greater than 0.")?;
            Ok(())
        },
        "keys per step (10)",
    ),
];

const CLUSTER: &[Opt] = &[
    words(
        &["--cluster"],
        "SUBCOMMAND...",
        cluster,
        "create, check, info, fix, reshard, rebalance, add-node, del-node, call, set-timeout, import, backup; \
        help says more",
    ),
    flag(&["--cluster-yes"], |s| s.manager.is_confirmed = true, "carry out the plan without a question"),
    value(
        &["--cluster-replicas"],
        "N",
        |s, v| set_number(&mut s.manager.replicas, v, "--cluster-replicas"),
        "create: replicas of each primary (0)",
    ),
    value(
        &["--cluster-from"],
        "ID,...",
        |s, v| set_some_text(&mut s.manager.from, v),
        "reshard: the nodes that give slots, or all; import: the server's host:port",
    ),
    value(
        &["--cluster-to"],
        "ID",
        |s, v| set_some_text(&mut s.manager.to, v),
        "reshard: the node that gets slots",
    ),
    value(
        &["--cluster-slots"],
        "N",
        |s, v| set_number(&mut s.manager.slots, v, "--cluster-slots"),
        "reshard: how many slots",
    ),
    words(&["--cluster-weight"], "ID=N...", weights, "rebalance: how much of the slots a node gets (1)"),
    flag(
        &["--cluster-use-empty-masters", "--cluster-use-empty-primaries"],
        |s| s.manager.uses_empty_primaries = true,
        "rebalance: give slots to primaries without any, too",
    ),
    value(
        &["--cluster-threshold"],
        "PERCENT",
        |s, v| set_number(&mut s.manager.threshold_percent, v, "--cluster-threshold"),
        "rebalance: how far nodes may be off (2)",
    ),
    flag(&["--cluster-simulate"], |s| s.manager.simulates = true, "rebalance: only say what would be moved"),
    value(
        &["--cluster-timeout"],
        "MILLISECONDS",
        |s, v| set_number(&mut s.manager.timeout_ms, v, "--cluster-timeout"),
        "how long a MIGRATE may wait for the other node (60000)",
    ),
    value(
        &["--cluster-pipeline"],
        "N",
        |s, v| set_number(&mut s.manager.pipeline, v, "--cluster-pipeline"),
        "keys of one MIGRATE (10)",
    ),
    flag(&["--cluster-replace"], |s| s.manager.replaces = true, "overwrite keys that the target has already"),
    flag(
        &["--cluster-use-atomic-slot-migration"],
        |s| s.manager.is_atomic = true,
        "reshard, rebalance: move slots all at once, where the nodes know CLUSTER MIGRATESLOTS",
    ),
    flag(
        &["--cluster-slave", "--cluster-replica"],
        |s| s.manager.adds_replica = true,
        "add-node: the node becomes a replica",
    ),
    value(
        &["--cluster-master-id", "--cluster-primary-id"],
        "ID",
        |s, v| set_some_text(&mut s.manager.primary_id, v),
        "add-node: whose replica (of the primary that has the fewest)",
    ),
    flag(
        &["--cluster-only-masters", "--cluster-only-primaries"],
        |s| s.manager.only_primaries = true,
        "call: primaries only",
    ),
    flag(&["--cluster-only-replicas"], |s| s.manager.only_replicas = true, "call: replicas only"),
    flag(
        &["--cluster-search-multiple-owners"],
        |s| s.manager.searches_multiple_owners = true,
        "check, fix: look for slots of which several nodes have keys",
    ),
    flag(
        &["--cluster-fix-with-unreachable-masters", "--cluster-fix-with-unreachable-primaries"],
        |s| s.manager.fixes_with_unreachable_primaries = true,
        "fix: also while primaries are out of reach, whose slots are given away then",
    ),
    flag(&["--cluster-copy"], |s| s.manager.copies = true, "import: leave the keys at their source, too"),
    value(
        &["--cluster-from-user"],
        "NAME",
        |s, v| {
            s.manager.from_user = Some(v.as_bytes().into());
            Ok(())
        },
        "import: user to authenticate as at the source",
    ),
    value(
        &["--cluster-from-pass"],
        "PASSWORD",
        |s, v| {
            s.manager.from_password = Some(v.as_bytes().into());
            Ok(())
        },
        "import: the source's password",
    ),
    flag(
        &["--cluster-from-askpass"],
        |s| s.manager.asks_from_password = true,
        "import: ask for the source's password on the terminal",
    ),
];

/// How many words come before the next option.
fn plain_words(rest: &[OsString]) -> usize {
    rest.iter().take_while(|word| !word.as_bytes().starts_with(b"-")).count()
}

fn cluster(settings: &mut Settings, rest: &[OsString]) -> Result<usize, String> {
    let unknown = || "Unrecognized option or bad number of args for: '--cluster'".to_string();
    let (name, arguments) = rest.split_first().ok_or_else(unknown)?;
    if matches!(settings.mode, Mode::Cluster(_)) {
        return Err(unknown());
    }
    settings.mode = Mode::Cluster(text(name)?.into());
    Ok(1 + take_arguments(settings, arguments))
}

/// Takes the words before the next option as the subcommand's; returns how many there are.
fn take_arguments(settings: &mut Settings, rest: &[OsString]) -> usize {
    let count = plain_words(rest);
    settings.words = rest.iter().take(count).map(|word| word.as_bytes().into()).collect();
    count
}

fn weights(settings: &mut Settings, rest: &[OsString]) -> Result<usize, String> {
    if !settings.manager.weights.is_empty() {
        return Err(
            "WARNING: you cannot use --cluster-weight more than once.\nYou can set more weights by adding \
            them as a space-separated list, ie:\n--cluster-weight n1=w n2=w"
                .into(),
        );
    }
    let is_weight = |word: &&OsString| !word.as_bytes().starts_with(b"--") && word.as_bytes().contains(&b'=');
    for word in rest.iter().take_while(is_weight) {
        settings.manager.weights.push(text(word)?.into());
    }
    Ok(settings.manager.weights.len())
}

fn set_number<N: std::str::FromStr>(target: &mut N, value: &OsStr, option: &str) -> Result<(), String> {
    *target = number(value).ok_or_else(|| format!("Invalid number for {option}."))?;
    Ok(())
}

fn human(settings: &mut Settings) {
    (settings.style.is_human, settings.style.output) = (true, Output::Standard);
}

fn rdb(settings: &mut Settings, file: &OsStr, only_functions: bool) -> Result<(), String> {
    settings.mode = Mode::Rdb { file: file.into(), only_functions };
    Ok(())
}

fn samples(settings: &mut Settings, value: &OsStr, mode: Mode) -> Result<(), String> {
    settings.scan.samples = Some(number(value).ok_or("The number of samples should be an integer.")?);
    settings.mode = mode;
    Ok(())
}

fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| format!("'{}' is not UTF-8", value.to_string_lossy()))
}

fn set_text(target: &mut String, value: &OsStr) -> Result<(), String> {
    *target = text(value)?.into();
    Ok(())
}

fn set_some_text(target: &mut Option<String>, value: &OsStr) -> Result<(), String> {
    *target = Some(text(value)?.into());
    Ok(())
}

fn set_some(target: &mut Option<std::path::PathBuf>, value: &OsStr) -> Result<(), String> {
    *target = Some(value.into());
    Ok(())
}

fn number<N: std::str::FromStr>(value: &OsStr) -> Option<N> {
    value.to_str()?.parse().ok()
}

fn seconds(value: &OsStr) -> Option<Duration> {
    Duration::try_from_secs_f64(number(value)?).ok()
}

fn port(value: &OsStr) -> Result<u16, String> {
    number(value).ok_or_else(|| "Invalid server port.".into())
}

fn password(settings: &mut Settings, value: &OsStr) -> Result<(), String> {
    settings.password = Some(value.as_bytes().into());
    Ok(())
}

fn uri(settings: &mut Settings, value: &OsStr) -> Result<(), String> {
    let uri = Uri::parse(text(value)?)?;
    settings.tls |= uri.tls;
    settings.user = uri.user.map(String::into_bytes).or(settings.user.take());
    settings.password = uri.password.map(String::into_bytes).or(settings.password.take());
    settings.host = uri.host.unwrap_or(std::mem::take(&mut settings.host));
    settings.port = uri.port.unwrap_or(settings.port);
    settings.database = uri.database.unwrap_or(settings.database);
    Ok(())
}

fn json(settings: &mut Settings, output: Output) {
    settings.style.output = output;
    if settings.protocol == Protocol::Default {
        settings.protocol = Protocol::Resp3IfKnown;
    }
}

fn show_pushes(settings: &mut Settings, value: &OsStr) -> Result<(), String> {
    settings.shows_pushes = match value.as_bytes().first() {
        Some(b'y' | b'Y') => true,
        Some(b'n' | b'N') => false,
        _ => {
            let value = value.to_string_lossy();
            return Err(format!("Unknown --show-pushes value '{value}' (valid: '[y]es', '[n]o')"));
        }
    };
    Ok(())
}

/// A parsed command line.
pub enum Parsed {
    /// The rest.
    Run(Box<Settings>),
    /// `--help`
    Help,
    /// `--version`
    Version,
}

fn find(name: &OsStr) -> Option<&'static Opt> {
    let options = GROUPS.iter().flat_map(|(_, options)| options.iter());
    options.into_iter().find(|option| option.names.iter().any(|known| name == *known))
}

/// Reads the arguments that follow the program's name.
pub fn parse(arguments: &[OsString], to_terminal: bool) -> Result<Parsed, String> {
    let mut settings = Settings::new(to_terminal);
    let mut given: Vec<&str> = Vec::new();
    let mut rest = arguments;
    while let Some((argument, others)) = rest.split_first() {
        if !argument.as_bytes().starts_with(b"-") {
            if !matches!(settings.mode, Mode::Cluster(_)) {
                settings.words = rest.iter().map(|word| word.as_bytes().into()).collect();
                break;
            }
            // A subcommand's arguments may follow the options; words behind those are not looked at.
            let count = if settings.words.is_empty() { take_arguments(&mut settings, rest) } else { 1 };
            rest = rest.get(count..).unwrap_or_default();
            continue;
        }
        rest = others;
        let is_last = rest.is_empty();
        match argument.to_str() {
            Some("--help") => return Ok(Parsed::Help),
            Some("-h") if is_last => return Ok(Parsed::Help),
            Some("-v" | "--version") => return Ok(Parsed::Version),
            _ => {}
        }
        let unknown =
            || format!("Unrecognized option or bad number of args for: '{}'", argument.to_string_lossy());
        let option = find(argument).ok_or_else(unknown)?;
        given.extend(option.names.first());
        match &option.act {
            Act::Flag(set) => set(&mut settings),
            Act::Value(_, take) => {
                let (value, others) = rest.split_first().ok_or_else(unknown)?;
                rest = others;
                take(&mut settings, value)?;
            }
            Act::Words(_, take) => {
                let count = take(&mut settings, rest)?;
                rest = rest.get(count..).unwrap_or_default();
            }
        }
    }
    check(&given)?;
    if settings.debugs.is_some() && !matches!(settings.mode, Mode::Eval(_)) {
        return Err(NEEDS_EVAL.into());
    }
    Ok(Parsed::Run(Box::new(settings)))
}

const NEEDS_EVAL: &str =
    "Options --ldb and --ldb-sync-mode require --eval.\nTry redis-cli --help for more information.";

/// Most percentiles of a line.
const PERCENTILES_MAX: usize = 32;

/// Percentiles with commas between.
fn percentiles(list: &str) -> Result<Vec<(String, f64)>, String> {
    let refuse = || format!("Invalid value for --latency-percentiles: '{list}'");
    let one = |text: &str| {
        let value: f64 = text.trim().parse().ok()?;
        (0.0..=100.0).contains(&value).then(|| (text.trim().to_owned(), value))
    };
    let all: Option<Vec<_>> = list.split(',').map(one).collect();
    all.filter(|all| all.len() <= PERCENTILES_MAX).ok_or_else(refuse)
}

/// Pairs of options that exclude each other.
const EXCLUSIVE: &[(&str, &str)] = &[("-c", "-s"), ("-2", "-3"), ("-x", "-X"), ("-4", "-6")];

fn check(given: &[&str]) -> Result<(), String> {
    for (one, other) in EXCLUSIVE {
        if given.contains(one) && given.contains(other) {
            return Err(format!("Options {one} and {other} are mutually exclusive."));
        }
    }
    Ok(())
}

/// The help text.
pub fn help(program: &str) -> String {
    let mut out = format!("Usage: {program} [OPTIONS] [COMMAND ARGUMENTS...]\n");
    for (title, options) in GROUPS {
        let _ = write!(out, "\n{title}:\n");
        for option in *options {
            let mut left = option.names.join(", ");
            if let Act::Value(what, _) | Act::Words(what, _) = option.act {
                let _ = write!(left, " {what}");
            }
            let _ = writeln!(out, "  {left:<24} {}", option.about);
        }
    }
    let _ = write!(
        out,
        "  --help                   this text\n  --version                the version\n
Without a command it reads commands: from the terminal with hints, completion and history, else line by line.

Examples:
  {program} -u redis://default:PASSWORD@localhost:6379/0
  {program} -x SET image < image.png
  {program} -D '' --raw DUMP key > key.dump; {program} -X dump RESTORE copy 0 dump REPLACE < key.dump
  {program} -r 10 -i 1 --raw INFO memory | grep used_memory_human
  {program} --quoted-input SET '\"a\\x00b\"' value
  {program} --eval script.lua key1 key2 , argument1
  {program} --scan --pattern '*:12345*'
  {program} --cluster check localhost:7000
"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Settings, String> {
        let words: Vec<OsString> = line.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
        match parse(&words, true)? {
            Parsed::Run(settings) => Ok(*settings),
            Parsed::Help => Err("help".into()),
            Parsed::Version => Err("version".into()),
        }
    }

    #[test]
    fn options_end_at_the_command() {
        let s = parsed("-h 10.0.0.1 -p 7 -n 3 -r -1 -i 0.5 -2 SET key -1 --raw").expect("valid");
        assert_eq!((s.host.as_str(), s.port, s.database, s.repeat), ("10.0.0.1", 7, 3, -1));
        assert_eq!((s.interval, s.protocol), (Duration::from_millis(500), Protocol::Resp2));
        assert_eq!(s.words, [&b"SET"[..], b"key", b"-1", b"--raw"]);
        assert_eq!(s.style.output, Output::Standard);
        assert!(parsed("").expect("valid").words.is_empty());
    }

    #[test]
    fn json_wants_resp3_unless_told_otherwise() {
        assert_eq!(parsed("--json").map(|s| s.protocol), Ok(Protocol::Resp3IfKnown));
        assert_eq!(parsed("--quoted-json -3").map(|s| s.protocol), Ok(Protocol::Resp3));
        assert_eq!(parsed("-2 --json").map(|s| s.protocol), Ok(Protocol::Resp2));
    }

    #[test]
    fn percentiles_are_numbers_up_to_a_hundred() {
        let s = parsed("--latency --latency-percentiles 50,99.9").expect("valid");
        assert_eq!(s.percentiles, [("50".to_owned(), 50.0), ("99.9".to_owned(), 99.9)]);
        for bad in ["", "x", "50,", "101", "-1", "nan", &"1,".repeat(40)] {
            assert!(percentiles(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn debugging_is_for_a_script() {
        assert_eq!(parsed("--eval f --ldb").map(|s| s.debugs), Ok(Some(false)));
        assert_eq!(parsed("--ldb-sync-mode --ldb --eval f").map(|s| s.debugs), Ok(Some(true)));
        let refused = parsed("--ldb").map(drop);
        assert_eq!(refused, Err(NEEDS_EVAL.into()));
    }

    #[test]
    fn a_uri_leaves_what_it_does_not_say() {
        let s = parsed("--user me -p 7 -u rediss://host/2").expect("valid");
        assert_eq!((s.host.as_str(), s.port, s.database, s.tls), ("host", 7, 2, true));
        assert_eq!(s.user.as_deref(), Some(&b"me"[..]));
    }

    #[test]
    fn what_is_wrong_is_named_in_redis_clis_words() {
        for (line, message) in [
            ("--foo", "Unrecognized option or bad number of args for: '--foo'"),
            ("-p", "Unrecognized option or bad number of args for: '-p'"),
            ("-X", "Unrecognized option or bad number of args for: '-X'"),
            ("-p 70000", "Invalid server port."),
            ("-t x", "Invalid connection timeout for -t."),
            ("-t -1", "Invalid connection timeout for -t."),
            ("-u http://x", "Invalid URI scheme"),
            ("-x -X tag", "Options -x and -X are mutually exclusive."),
            ("-3 -2", "Options -2 and -3 are mutually exclusive."),
            ("-c -s x", "Options -c and -s are mutually exclusive."),
            ("-4 -6", "Options -4 and -6 are mutually exclusive."),
            ("--show-pushes x", "Unknown --show-pushes value 'x' (valid: '[y]es', '[n]o')"),
            ("-h", "help"),
            ("-h x --help", "help"),
            ("-v", "version"),
        ] {
            assert_eq!(parsed(line).err().as_deref(), Some(message), "{line}");
        }
    }

    #[test]
    fn every_option_has_its_own_name_and_is_in_the_help() {
        let mut names: Vec<_> =
            GROUPS.iter().flat_map(|(_, options)| options.iter().flat_map(|option| option.names)).collect();
        let help = help("martlet cli");
        assert!(names.iter().all(|name| help.contains(*name)));
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
