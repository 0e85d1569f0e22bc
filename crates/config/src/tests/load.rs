//! Tests of reading configuration text. The refusals were recorded from redis-server 7.0.15.

use std::ffi::OsString;
use std::path::Path;

use super::*;

/// A file's text; the line, the directive and the message of the refusal.
const REFUSED: &[(&str, usize, &str, &str)] = &[
    ("foo bar\n", 1, "foo bar", "Bad directive or wrong number of arguments"),
    ("port\n", 1, "port", "wrong number of arguments"),
    ("port 1 2\n", 1, "port 1 2", "wrong number of arguments"),
    ("# c\n\nport abc\n", 3, "port abc", "argument couldn't be parsed into an integer"),
    ("port \"12\n", 1, "port \"12", "Unbalanced quotes in configuration line"),
    ("port \"12\"x\n", 1, "port \"12\"x", "Unbalanced quotes in configuration line"),
    ("PORT 7351\nbad\n", 2, "bad", "Bad directive or wrong number of arguments"),
    ("save 1\n", 1, "save 1", "Invalid save parameters"),
    ("save a b\n", 1, "save a b", "Invalid save parameters"),
    ("save 0 1\n", 1, "save 0 1", "Invalid save parameters"),
    ("save 900 -1\n", 1, "save 900 -1", "Invalid save parameters"),
    ("maxmemory 1x\n", 1, "maxmemory 1x", "argument must be a memory value"),
    (
        "maxmemory-policy foo\n",
        1,
        "maxmemory-policy foo",
        "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, volatile-lrm, allkeys-lru, allkeys-lfu, allkeys-random, allkeys-lrm, noeviction, volatile-lrfu, allkeys-lrfu",
    ),
    ("include\n", 1, "include", "Bad directive or wrong number of arguments"),
    ("include a b\n", 1, "include a b", "Bad directive or wrong number of arguments"),
    ("dir /nonexistent\n", 1, "dir /nonexistent", "No such file or directory"),
    ("sentinel monitor a\n", 1, "sentinel monitor a", "sentinel directive while not in sentinel mode"),
    ("rename-command foo bar\n", 1, "rename-command foo bar", "No such command in rename-command"),
    ("rename-command get set\n", 1, "rename-command get set", "Target command name already exists"),
    ("rename-command get\n", 1, "rename-command get", "Bad directive or wrong number of arguments"),
    ("user\n", 1, "user", "Bad directive or wrong number of arguments"),
    ("user a b\n", 1, "user a b", "Error in user declaration 'user': Syntax error"),
    ("role\n", 1, "role", "Bad directive or wrong number of arguments"),
    ("role a b c\n", 1, "role a b c", "Error in role declaration 'c': Syntax error"),
    (
        "role a\nrole a\n",
        2,
        "role a",
        "Error in role declaration 'a': Duplicate role found. A role can only be defined once in config files",
    ),
    (
        "bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
        1,
        "bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
        "Too many bind addresses specified.",
    ),
    (
        "notify-keyspace-events q\n",
        1,
        "notify-keyspace-events q",
        "Invalid event class character. Use 'Ag$lshzxeKEtmdnocaSTIV'.",
    ),
    (
        "client-output-buffer-limit normal 0 0\n",
        1,
        "client-output-buffer-limit normal 0 0",
        "Wrong number of arguments in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit master 0 0 0\n",
        1,
        "client-output-buffer-limit master 0 0 0",
        "Invalid client class specified in buffer limit configuration.",
    ),
    (
        "client-output-buffer-limit normal a 0 0\n",
        1,
        "client-output-buffer-limit normal a 0 0",
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    ),
    ("oom-score-adj-values 1\n", 1, "oom-score-adj-values 1", "wrong number of arguments"),
    ("unixsocketperm 999\n", 1, "unixsocketperm 999", "argument couldn't be parsed as an octal number"),
    ("unixsocketperm 7777\n", 1, "unixsocketperm 7777", "argument must be between 0 and 777 inclusive"),
    ("appendonly maybe\n", 1, "appendonly maybe", "argument must be 'yes' or 'no'"),
    ("replicaof a\n", 1, "replicaof a", "wrong number of arguments"),
    ("replicaof a b\n", 1, "replicaof a b", "Invalid master port"),
    ("slaveof a 99999\n", 1, "slaveof a 99999", "Invalid master port"),
    ("foo.bar\n", 1, "foo.bar", "Module config specified without value"),
    (
        "list-max-ziplist-entries 1\nlua-replicate-commands yes\nbadd\n",
        3,
        "badd",
        "Bad directive or wrong number of arguments",
    ),
    (
        "latency-tracking-info-percentiles 200\n",
        1,
        "latency-tracking-info-percentiles 200",
        "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
    ),
    ("databases 0\n", 1, "databases 0", "argument must be between 1 and 2147483647 inclusive"),
    ("tcp-backlog -1\n", 1, "tcp-backlog -1", "argument must be between 0 and 2147483647 inclusive"),
    ("port 0x10\n", 1, "port 0x10", "argument couldn't be parsed into an integer"),
    ("port +1\n", 1, "port +1", "argument couldn't be parsed into an integer"),
    ("port 01\n", 1, "port 01", "argument couldn't be parsed into an integer"),
    ("requirepass 'a'b\n", 1, "requirepass 'a'b", "Unbalanced quotes in configuration line"),
    ("dbfilename a/b\n", 1, "dbfilename a/b", "dbfilename can't be a path, just a filename"),
    ("appendfilename \"\"\n", 1, "appendfilename \"\"", "appendfilename can't be empty"),
    ("maxmemory -1\n", 1, "maxmemory -1", "argument must be a memory value"),
    ("maxmemory 1.5gb\n", 1, "maxmemory 1.5gb", "argument must be a memory value"),
    ("maxclients 0\n", 1, "maxclients 0", "argument must be between 1 and 4294967295 inclusive"),
    (
        "maxmemory-clients 101%\n",
        1,
        "maxmemory-clients 101%",
        "percentage argument must be less or equal to 100",
    ),
    (
        "proc-title-template \"{x}\"\n",
        1,
        "proc-title-template \"{x}\"",
        "template format is invalid or contains unknown variables",
    ),
    (
        "shutdown-on-sigint save nosave\n",
        1,
        "shutdown-on-sigint save nosave",
        "shutdown options SAVE and NOSAVE can't be used simultaneously",
    ),
    (
        "supervised foo\n",
        1,
        "supervised foo",
        "argument(s) must be one of the following: upstart, systemd, auto, no",
    ),
    ("hz abc\n", 1, "hz abc", "argument couldn't be parsed into an integer"),
    ("save 900 1 300\n", 1, "save 900 1 300", "Invalid save parameters"),
    ("save \"900 1 300 10\"\nbad\n", 2, "bad", "Bad directive or wrong number of arguments"),
    ("timeout \"\"\n", 1, "timeout \"\"", "argument couldn't be parsed into an integer"),
    ("\tport  7351 # not a comment\n", 1, "port  7351 # not a comment", "wrong number of arguments"),
    ("port 7351\r\nbad \r\n", 2, "bad", "Bad directive or wrong number of arguments"),
    ("loadmodule\n", 1, "loadmodule", "Bad directive or wrong number of arguments"),
    ("daemonize yess\n", 1, "daemonize yess", "argument must be 'yes' or 'no'"),
    (
        "enable-debug-command maybe\n",
        1,
        "enable-debug-command maybe",
        "argument(s) must be one of the following: no, yes, local",
    ),
    (
        "cluster-announce-hostname a_b\n",
        1,
        "cluster-announce-hostname a_b",
        "Hostnames may only contain alphanumeric characters, hyphens or dots",
    ),
    (
        "cluster-announce-ip \"10.0.0.1 x\"\n",
        1,
        "cluster-announce-ip \"10.0.0.1 x\"",
        "cluster-announce-ip contains invalid character",
    ),
    (
        "repl-backlog-size 0\n",
        1,
        "repl-backlog-size 0",
        "argument must be between 1 and 9223372036854775807 inclusive",
    ),
    ("save '900 1\n", 1, "save '900 1", "Unbalanced quotes in configuration line"),
    ("  bad directive\n", 1, "bad directive", "Bad directive or wrong number of arguments"),
    ("rename-command get \"\"\nbad\n", 2, "bad", "Bad directive or wrong number of arguments"),
];

#[test]
fn refuses_in_redis_words() {
    for &(text, line, directive, message) in REFUSED {
        match load_text(text, "") {
            Err(LoadError::Directive { source, line: at, text: of, message: why }) => {
                assert_eq!(
                    (source.as_str(), at, of.as_str(), why.as_str()),
                    ("standard input", line, directive, message)
                );
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn refusals_read_as_redis_does() {
    let error = load_text("# a\n\n foo  'bar' \n", "").unwrap_err().to_string();
    let heading = format!("\n*** FATAL CONFIG FILE ERROR (Redis {REDIS_VERSION}) ***\n");
    assert_eq!(
        error,
        format!(
            "{heading}Reading the configuration file, at line 3 (standard input)\n>>> 'foo  'bar''\n\
             Bad directive or wrong number of arguments"
        )
    );
    let error = load_text("cluster-enabled yes\nreplicaof a 1\n", "").unwrap_err().to_string();
    assert_eq!(error, format!("{heading}replicaof directive not allowed in cluster mode"));
    let error = load_text("logfile /nonexistent/x.log\n", "").unwrap_err().to_string();
    assert_eq!(error, format!("{heading}Can't open the log file: No such file or directory"));
    let sources = Sources { file: Some("/nonexistent.conf".into()), ..Sources::default() };
    let error = crate::load(&sources, &Commands).unwrap_err().to_string();
    assert_eq!(error, "Fatal error, can't open config file '/nonexistent.conf': No such file or directory");
}

/// What CONFIG GET says of a node is what it has; without a cluster nothing changes.
#[test]
fn a_node_has_the_databases_of_the_cluster() {
    for (text, databases) in [
        ("cluster-enabled yes\ndatabases 16\n", 1),
        ("cluster-enabled yes\n", 1),
        ("databases 9\ncluster-databases 4\ncluster-enabled yes\n", 4),
        ("cluster-enabled no\ndatabases 9\ncluster-databases 4\n", 9),
        ("", 16),
    ] {
        let config = load_text(text, "").unwrap().config;
        assert_eq!((config.databases, config.database_count()), (databases, databases as usize), "{text}");
        assert_eq!(find(b"databases").unwrap().get(&config), databases.to_string().as_bytes());
    }
}

#[test]
fn takes_every_form_of_a_directive() {
    let loaded = load_text(
        "PORT 7000\r\n\tio-threads  3  \n save 900 1\nsave \"300 10 60 100\"\nbind 127.0.0.1 \"::1\"\n\
         requirepass \"a\\x00b\"\nunixsocketperm 755\nhash-max-ziplist-entries 7\nlua-time-limit 9\n\
         client-output-buffer-limit replica 1mb 2k 3\nhz 1000\nmaxmemory 2gb\nslave-priority 5\n",
        "",
    );
    let config = loaded.unwrap().config;
    assert_eq!((config.port, config.io_threads, config.hz, config.unixsocketperm), (7000, 3, 500, 0o755));
    assert_eq!(find(b"save").unwrap().get(&config), b"900 1 300 10 60 100");
    assert_eq!(config.bind, ["127.0.0.1", "::1"]);
    assert_eq!(config.requirepass.as_deref(), Some(&b"a\0b"[..]));
    assert_eq!((config.hash_max_listpack_entries, config.busy_reply_threshold_ms), (7, 9));
    assert_eq!(config.maxmemory_bytes, 2 << 30);
    assert_eq!(config.replica_priority, 5);
    let replica = config.client_output_buffer_limits[OutputClass::Replica as usize];
    assert_eq!((replica.hard_bytes, replica.soft_bytes, replica.soft_seconds), (1 << 20, 2000, 3));
    assert_eq!(config.client_output_buffer_limits[OutputClass::Pubsub as usize].hard_bytes, 32 << 20);
}

#[test]
fn save_points_of_a_file_add_up_and_replace_the_defaults() {
    let save = |text: &str| find(b"save").unwrap().get(&load_text(text, "").unwrap().config);
    assert_eq!(save(""), b"3600 1 300 100 60 10000");
    assert_eq!(save("save 900 1\nsave 3 4\nsave 5 6\n"), b"900 1 3 4 5 6");
    assert_eq!(save("save 900 1\nsave \"\"\n"), b"");
    assert_eq!(save("save \"\"\nsave 1 1\n"), b"1 1");
}

#[test]
fn what_has_no_effect_is_noted_once() {
    let loaded = load_text(
        "activerehashing yes\nactiverehashing no\nport 1\nprefetch-batch-max-size 1\nloadmodule ./x.so a\nfoo.bar 1\nsearch-unknown 5\n\
         lua-replicate-commands yes\nsentinel\n",
        "",
    )
    .unwrap();
    let names: Vec<_> = loaded.without_effect.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["activerehashing", "prefetch-batch-max-size"]);
    let ignored: Vec<_> = loaded.ignored.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(ignored, ["loadmodule", "foo.bar", "search-unknown", "lua-replicate-commands", "sentinel"]);
}

#[test]
fn commands_are_renamed_in_turn() {
    let renames = |text: &str| load_text(text, "").map(|loaded| loaded.renames);
    let pair = |a: &str, b: &str| (Vec::from(a), Vec::from(b));
    assert_eq!(
        renames("rename-command GET \"\"\nrename-command set get").unwrap(),
        [pair("GET", ""), pair("set", "get")]
    );
    assert_eq!(renames("rename-command get get").unwrap(), [pair("get", "get")]);
    assert!(renames("rename-command get x\nrename-command get y").is_err());
    assert!(renames("rename-command get x\nrename-command set X").is_err());
    assert_eq!(load_text("user bob\n", "").unwrap().declared.users, [[b"bob".to_vec()]]);
    let roles = load_text("role r +get\nuser bob\nrole s\n", "").unwrap().declared.roles;
    assert_eq!(roles, [vec![b"r".to_vec(), b"+get".to_vec()], vec![b"s".to_vec()]]);
}

#[test]
fn includes_files_and_names_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    std::fs::create_dir(path.join("conf.d")).unwrap();
    for (name, text) in
        [("conf.d/b.conf", "port 2\n"), ("conf.d/a.conf", "port 1\n"), ("conf.d/.c.conf", "port 3\n")]
    {
        std::fs::write(path.join(name), text).unwrap();
    }
    std::fs::write(path.join("bad.conf"), "\n\nnonsense\n").unwrap();
    std::fs::write(path.join("loop.conf"), "include loop.conf\n").unwrap();
    let load = |text: &str| load_text(&format!("dir {}\n{text}", path.display()), "");
    assert_eq!(load("include conf.d/*.conf\n").unwrap().config.port, 2);
    assert_eq!(load("include conf.d/a.conf\n").unwrap().config.port, 1);
    assert_eq!(load("include none.d/*.conf\n").unwrap().config.port, 6379);
    let bad = path.join("bad.conf").display().to_string();
    assert!(
        load("include bad.conf\n")
            .unwrap_err()
            .to_string()
            .contains(&format!("at line 3 ({bad})\n>>> 'nonsense'"))
    );
    assert!(
        matches!(load("include none.conf\n"), Err(LoadError::File { path: missing, .. }) if missing == path.join("none.conf"))
    );
    assert!(
        load("include loop.conf\n").unwrap_err().to_string().contains("Too many nested include directives")
    );
    let config = load("dir conf.d\n").unwrap().config;
    assert_eq!(config.dir, path.join("conf.d"));
}

fn run(arguments: &[&str]) -> Invocation {
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    parse_command_line(&arguments, Path::new("/start")).unwrap()
}

fn options(arguments: &[&str]) -> String {
    let Invocation::Run(line) = run(arguments) else { panic!("{arguments:?}") };
    String::from_utf8(line.options).unwrap()
}

#[test]
fn the_command_line_is_configuration() {
    assert_eq!(options(&["--port", "1", "--port", "2"]), "port \"1\" \nport \"2\" ");
    assert_eq!(options(&["--port 1", "--save", ""]), "port 1 \nsave \"\" ");
    assert_eq!(options(&["--save", "--port", "1"]), "save \"\"\nport \"1\" ");
    assert_eq!(options(&["--port", "1", "--save"]), "port \"1\" \nsave \"\"");
    assert_eq!(options(&["--save", "900", "1", "--save", "3 4"]), "save \"900\" \"1\" \nsave \"3 4\" ");
    assert_eq!(
        options(&["--requirepass", "--a\"b", "--port", "1"]),
        "requirepass \"--a\\\"b\" \nport \"1\" "
    );
    assert_eq!(options(&["--loglevel", "--verbose"]), "loglevel \"--verbose\" ");
    assert_eq!(options(&["--port=1"]), "port=1 ");
    assert_eq!(options(&["--port", "1", "-", "--x", "y"]), "port \"1\" \"-\" \nx \"y\" ");
    let Invocation::Run(line) = run(&["a.conf", "--port", "1", "-"]) else { panic!() };
    assert_eq!((line.file.as_deref(), line.stdin), (Some(Path::new("/start/a.conf")), true));
    let Invocation::Run(line) = run(&["-"]) else { panic!() };
    assert!(line.stdin && line.options.is_empty() && !line.is_empty());
    assert_eq!(line.sources(&b"port 5"[..]).unwrap().stdin.as_deref(), Some(&b"port 5"[..]));
    assert!(matches!(run(&[]), Invocation::Run(line) if line.is_empty()));
    assert!(matches!(run(&["--version"]), Invocation::Version));
    assert!(matches!(run(&["-h"]), Invocation::Help));
    assert!(
        matches!(run(&["--check-config", "/a", "--port", "1"]), Invocation::CheckConfig(line) if line.file.is_some())
    );
    assert!(matches!(run(&["/a", "--port", "1", "--check-config"]), Invocation::CheckConfig(_)));
    let sentinel = parse_command_line(&["/a".into(), "--sentinel".into()], Path::new("/"));
    assert_eq!(sentinel, Err(CommandLineError::Sentinel));
}

#[test]
fn options_count_lines_as_redis_does() {
    let line = |text: Option<&str>, options: &str| {
        let sources = Sources { file: None, stdin: text.map(Into::into), options: options.into() };
        match crate::load(&sources, &Commands) {
            Err(LoadError::Directive { source, line, .. }) => (source, line),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(line(None, "bad"), ("command line".into(), 2));
    assert_eq!(line(None, "port 1\nbad"), ("command line".into(), 3));
    assert_eq!(line(Some("save 900 1\nsave 3 4\n"), "bad"), ("command line".into(), 4));
}

proptest::proptest! {
    #[test]
    fn any_text_loads_or_is_refused_with_its_line(
        lines in proptest::collection::vec((0usize..300, "[ -~\\t]{0,20}"), 0..8),
    ) {
        let names: Vec<_> = parameters().map(|parameter| parameter.name).collect();
        let text: Vec<_> = lines
            .iter()
            .map(|(index, rest)| format!("{} {rest}", names.get(*index).unwrap_or(&"")))
            .filter(|line| !line.trim_start().starts_with("include"))
            .collect();
        match load_text(&text.join("\n"), "") {
            Err(LoadError::Directive { line, text: directive, .. }) => {
                proptest::prop_assert_eq!(text[line - 1].trim(), directive);
            }
            Err(LoadError::File { path, .. }) => panic!("read {path:?}"),
            Ok(_) | Err(LoadError::Whole(_)) => {}
        }
    }
}

#[test]
fn reads_the_files_that_distributions_ship() {
    // The directives that are not comments in redis.conf of Debian's 7.0.15, of Redis 7.9 and in valkey.conf
    // of Valkey 8, and those that a comment there proposes.
    let fixture = include_str!("shipped.conf");
    let directory = tempfile::tempdir().unwrap();
    let text = fixture.replace("@DIR@", &directory.path().display().to_string());
    let sources = Sources { stdin: Some(text.into()), ..Sources::default() };
    let loaded = crate::load(&sources, &AnySurroundings).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((loaded.config.port, loaded.declared.users.len()), (6379, 1));
}
