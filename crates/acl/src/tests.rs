//! Users against a real server's answers, and random rules against a naive model of them.

use std::collections::BTreeSet;

use martlet_base::glob;
use martlet_protocol::request::OwnedArgs;
use martlet_spec::{Channels, Command, Databases, Flags, KeyFlags, KeyPart, command, container};
use proptest::prelude::*;

use super::*;

static GET: Command<()> = command("get", 2, ())
    .flags(Flags::READONLY.with(Flags::FAST))
    .keys(&[KeyPart::one(1, KeyFlags::RO.with(KeyFlags::ACCESS))]);
static SET: Command<()> =
    command("set", -3, ()).flags(Flags::WRITE).keys(&[KeyPart::one(1, KeyFlags::OW.with(KeyFlags::UPDATE))]);
static TOUCH: Command<()> =
    command("touch", -2, ()).flags(Flags::READONLY).keys(&[KeyPart::range(1, -1, 1, KeyFlags::RO)]);
static MGET: Command<()> = command("mget", -2, ()).flags(Flags::READONLY).keys(&[KeyPart::range(
    1,
    -1,
    1,
    KeyFlags::RO.with(KeyFlags::ACCESS),
)]);
static SELECT: Command<()> =
    command("select", 2, ()).flags(Flags::FAST).databases(Databases::Named(|_| vec![1]));
static PUBLISH: Command<()> = command("publish", 3, ()).flags(Flags::PUBSUB).channels(Channels::First);
static PSUBSCRIBE: Command<()> =
    command("psubscribe", -2, ()).flags(Flags::PUBSUB).channels(Channels::Patterns);
static AUTH: Command<()> = command("auth", -2, ()).flags(Flags::NO_AUTH);
static CONFIG_GET: Command<()> = command("config|get", -3, ()).flags(Flags::ADMIN);
static CONFIG_SET: Command<()> = command("config|set", -4, ()).flags(Flags::ADMIN);
static CONFIG: Command<()> = container("config", -2, &[&CONFIG_GET, &CONFIG_SET]);
static FLUSHALL: Command<()> = command("flushall", -1, ()).flags(Flags::WRITE).databases(Databases::All);

static SWAPDB: Command<()> =
    command("swapdb", 3, ()).flags(Flags::WRITE).databases(Databases::Named(|_| vec![1, 2]));

/// In the order of their places; CONFIG's subcommands follow it.
static COMMANDS: [&Command<()>; 13] = [
    &GET,
    &SET,
    &TOUCH,
    &MGET,
    &SELECT,
    &PUBLISH,
    &PSUBSCRIBE,
    &AUTH,
    &CONFIG,
    &CONFIG_GET,
    &CONFIG_SET,
    &FLUSHALL,
    &SWAPDB,
];

fn table() -> Table {
    Table::new(COMMANDS.iter().map(|command| {
        let parent = command.spec.full_name.starts_with("config|").then_some(8);
        Listed { spec: &command.spec, parent, is_hidden: false }
    }))
}

fn rules(table: &Table) -> Rules<'_> {
    Rules { table, all_channels: false }
}

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

/// A user of these rules.
fn user(text: &str) -> Result<User, SetError> {
    let table = table();
    User::new(b"u", &rules(&table)).with_rules(&rules(&table), &Roles::default(), words(text))
}

fn described(text: &str) -> String {
    String::from_utf8(user(text).unwrap().describe()).unwrap()
}

fn check_in(user: &User, db: usize, request: &str) -> Result<(), Denial> {
    let args = OwnedArgs::from_slices(words(request));
    let table = table();
    let (first, second) = (args.view().at(0).to_vec(), args.view().at(1).to_vec());
    let place = table.find(&[&first[..], b"|", &second].concat()).or_else(|| table.find(&first)).unwrap();
    user.check(&Request { place, spec: &COMMANDS[place].spec, args: args.view(), db, databases: 4 })
}

fn check(user: &User, request: &str) -> Result<(), Denial> {
    check_in(user, 0, request)
}

fn text(error: SetError) -> String {
    error.reply().to_string()
}

#[test]
fn users_are_described_by_what_makes_them() {
    for (given, expected) in [
        ("", "off sanitize-payload resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass sanitize-payload ~* &* +@all"),
        ("ALLKEYS allchannels ON nopass allcommands", "on nopass sanitize-payload ~* &* +@all"),
        ("%R~a %W~a %RW~b %wr~c", "off sanitize-payload ~a ~b ~c resetchannels -@all"),
        ("%R", "off sanitize-payload %R~ resetchannels -@all"),
        ("%rW", "off sanitize-payload ~ resetchannels -@all"),
        (
            "(%R -set) (%W +get)",
            "off sanitize-payload resetchannels -@all (%R~ resetchannels -@all -set) (%W~ resetchannels -@all +get)",
        ),
        ("&x &y &x +get", "off sanitize-payload resetchannels &x &y -@all +get"),
        ("+@all -config|get -@read +get", "off sanitize-payload resetchannels +@all -config|get -@read +get"),
        ("+config|get +config", "off sanitize-payload resetchannels -@all +config"),
        ("+GET +get -set +set -get", "off sanitize-payload resetchannels -@all +set -get"),
        ("+select|0 +select|0 +select|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"),
        ("+select|0 +select", "off sanitize-payload resetchannels -@all +select"),
        ("+@READ +@read -@write", "off sanitize-payload resetchannels -@all +@read -@write"),
        ("+@read +@all", "off sanitize-payload resetchannels +@all"),
        ("db=3,1,1", "off sanitize-payload resetchannels db=1,3 -@all"),
        ("resetdbs", "off sanitize-payload resetchannels resetdbs -@all"),
        ("db=1 alldbs", "off sanitize-payload resetchannels -@all"),
        (
            "(+get ~a ) ( &c +set) clearselectors (+mget)",
            "off sanitize-payload resetchannels -@all (resetchannels -@all +mget)",
        ),
        (
            "on nopass ~* &* +@all skip-sanitize-payload (+get) reset",
            "off sanitize-payload resetchannels -@all",
        ),
    ] {
        assert_eq!(described(given), expected, "{given}");
        assert_eq!(described(expected), expected);
    }
}

/// A real server writes a selector of such patterns in a form that it cannot read.
#[test]
fn selectors_of_odd_patterns_survive_a_file() {
    let (table, word) = (table(), &br#"(~a) "~\"b\\" "&c'd)" +get)"#[..]);
    let rules = rules(&table);
    let given = User::new(b"u", &rules).with_rules(&rules, &Roles::default(), [word]).unwrap();
    let text = [&given.line()[..], b"\n"].concat();
    assert!(
        text.ends_with(
            br#"("~a)" "~\"b\\" resetchannels "&c'd)" -@all +get)
"#
        ),
        "{}",
        String::from_utf8_lossy(&text)
    );
    assert_eq!(**Users::from_text(&text, "f", &rules).unwrap().get(b"u").unwrap(), given);
}

#[test]
fn wrong_rules_get_the_words_of_a_real_server() {
    for (given, expected) in [
        ("+nosuch", "'+nosuch': Unknown command or category name in ACL"),
        ("-select|0", "'-select|0': Unknown command or category name in ACL"),
        ("+config|nosuch", "'+config|nosuch': Unknown command or category name in ACL"),
        ("+get|a|b", "'+get|a|b': Unknown command or category name in ACL"),
        ("+@nosuch", "'+@nosuch': Unknown command or category name in ACL"),
        ("+", "'+': Unknown command or category name in ACL"),
        ("+config|get|x", "'+config|get|x': Allowing first-arg of a subcommand is not supported"),
        ("+select|", "'+select|': Syntax error"),
        ("%~a", "'%~a': Syntax error"),
        ("%RR~a", "'%RR~a': Syntax error"),
        ("%", "'%': Syntax error"),
        ("%RR", "'%RR': Syntax error"),
        ("%Rx", "'%Rx': Syntax error"),
        ("%X~a", "'%X~a': Syntax error"),
        ("word", "'word': Syntax error"),
        (")", "')': Syntax error"),
        ("(word)", "'(word)': Syntax error"),
        ("(+get (+set )", "'(+get (+set )': Syntax error"),
        ("db=", "'db=': Syntax error"),
        ("db=1,", "'db=1,': Syntax error"),
        ("db=2147483648", "'db=2147483648': The provided database ID is out of range"),
        ("db=-1", "'db=-1': The provided database ID is out of range"),
        ("<pw", "'<pw': The password you are trying to remove from the user does not exist"),
    ] {
        assert_eq!(text(user(given).unwrap_err()), format!("ERR Error in ACL SETUSER modifier {expected}"));
    }
    for given in ["#abc", "!abc", &format!("#{}", "A".repeat(64)), &format!("#{}", "g".repeat(64))] {
        assert!(text(user(given).unwrap_err()).ends_with(&RuleError::BadHash.to_string()), "{given}");
    }
    assert!(
        text(user("~* ~a").unwrap_err()).ends_with("Try 'resetkeys' to start with an empty list of patterns")
    );
    assert!(
        text(user("&* &a").unwrap_err())
            .ends_with("Try 'resetchannels' to start with an empty list of channels")
    );
    let unmatched = "ERR Unmatched parenthesis in acl selector starting at '(+get'.";
    assert_eq!(text(user("on (+get +set").unwrap_err()), unmatched);
}

#[test]
fn requests_are_refused_for_the_reason_that_goes_furthest() {
    let reader = user("+get +mget +select|1 ~a* &news:* +publish +psubscribe").unwrap();
    for (request, expected) in [
        ("get a1", Ok(())),
        ("get b", Err(Denial::Key(1))),
        ("mget a1 a2 b c", Err(Denial::Key(3))),
        ("set a1 x", Err(Denial::Command)),
        ("select 1", Ok(())),
        ("select 0", Err(Denial::Command)),
        ("publish news:1 b", Ok(())),
        ("publish olds b", Err(Denial::Channel(1))),
        ("psubscribe news:*", Ok(())),
        ("psubscribe news:* news:1", Err(Denial::Channel(2))),
        ("config get a", Err(Denial::Command)),
        ("auth a", Ok(())),
    ] {
        assert_eq!(check(&reader, request), expected, "{request}");
    }
    let two = user("+mget ~key (+mget ~key ~otherkey)").unwrap();
    assert_eq!(check(&two, "mget key otherkey someotherkey"), Err(Denial::Key(3)));
    assert_eq!(check(&two, "get key"), Err(Denial::Command));
    let apart = user("+@all %R~read* %W~write*").unwrap();
    for (request, is_allowed) in [
        ("get read", true),
        ("get write", false),
        ("set write 1", true),
        ("set read 1", false),
        ("touch read", true),
        ("touch write", true),
        ("touch other", false),
    ] {
        assert_eq!(check(&apart, request).is_ok(), is_allowed, "{request}");
    }
}

#[test]
fn a_user_of_some_databases_keeps_to_them() {
    let confined = user("+@all allkeys allchannels db=1,2").unwrap();
    assert!(!confined.is_unrestricted());
    assert_eq!(check_in(&confined, 1, "get a"), Ok(()));
    assert_eq!(check_in(&confined, 0, "get a"), Err(Denial::Database(None)));
    assert_eq!(check_in(&confined, 0, "select 2"), Ok(()));
    assert_eq!(check_in(&confined, 0, "select 3"), Err(Denial::Database(Some(1))));
    assert_eq!(check_in(&confined, 0, "select x"), Ok(()));
    // The server has four: it refuses this itself.
    assert_eq!(check_in(&confined, 0, "select 4"), Ok(()));
    assert_eq!(check_in(&confined, 1, "flushall"), Err(Denial::Database(None)));
    let of_each = user("+@all db=0,1,2,3").unwrap();
    assert_eq!(check_in(&of_each, 1, "flushall"), Ok(()));
    assert_eq!(check_in(&user("+@all db=0,1,2,4,5").unwrap(), 1, "flushall"), Err(Denial::Database(None)));
    assert_eq!(check_in(&confined, 0, "swapdb 1 2"), Ok(()));
    assert_eq!(check_in(&confined, 1, "swapdb 1 3"), Err(Denial::Database(Some(2))));
    assert_eq!(check_in(&confined, 1, "swapdb 3 x"), Ok(()));
    assert_eq!(check_in(&confined, 0, "publish a b"), Ok(()));
    let two = user("db=0 (+get ~x db=1)").unwrap();
    assert_eq!(check_in(&two, 0, "get x"), Err(Denial::Command));
    assert_eq!(check_in(&two, 1, "get x"), Ok(()));
    assert_eq!(described("db=16"), "off sanitize-payload resetchannels db=16 -@all");
}

#[test]
fn passwords_are_added_and_removed_by_text_and_by_hash() {
    let hash = Password::of(b"one").hex();
    assert_eq!(hash, "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    let users = user(&format!("on >one #{hash} >two")).unwrap();
    assert_eq!(users.passwords().len(), 2);
    assert!(
        users.accepts(b"one") && users.accepts(b"two") && !users.accepts(b"three") && !users.accepts(b"")
    );
    assert!(!user("off nopass").unwrap().accepts(b"one"));
    let fewer = user(&format!("on >one >two !{hash}")).unwrap();
    assert!(!fewer.accepts(b"one") && fewer.accepts(b"two"));
    assert!(user("on >one nopass").unwrap().accepts(b"whatever"));
    assert!(!user("on nopass resetpass").unwrap().accepts(b""));
    assert!(!user("on nopass >one").unwrap().accepts(b"two"));
}

/// Compared with all that came before them, so many rules would take 10^10 steps.
#[test]
fn many_rules_are_kept_once_and_in_their_order() {
    let numbers = || (0..60_000_u32).rev().chain(0..60_000);
    let words = |prefix: &str| numbers().map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(" ");
    let expected = |prefix: &str| {
        let all: Vec<_> = (0..60_000).rev().map(|i| format!("{prefix}{i}").into_bytes()).collect();
        all.join(&b' ')
    };
    let many = user(&format!("{} {} %R~x {}", words("~k"), words("&c"), words("%W~w"))).unwrap();
    assert_eq!(many.root().describe_channels(), expected("&c"));
    let keys = [&expected("~k")[..], b"%R~x", &expected("%W~w")].join(&b' ');
    assert_eq!(many.root().describe_keys(), keys);
    assert!(many.keeps_channels_of(&many.clone()));
    let many = user(&format!("~* {}", words("+get|a"))).unwrap();
    // The later of two rules about the same takes the place of the earlier.
    let rules: Vec<_> = (0..60_000).map(|i| format!("+get|a{i}")).collect();
    assert_eq!(many.root().describe_commands(), format!("-@all {}", rules.join(" ")).into_bytes());
    assert_eq!((check(&many, "get A7"), check(&many, "get b")), (Ok(()), Err(Denial::Command)));
    let hashes: Vec<_> = (0..60_000_u32).map(|i| format!("#{i:064x}")).collect();
    let many = user(&format!("{0} {0}", hashes.join(" "))).unwrap();
    assert_eq!(many.passwords().len(), 60_000);
    assert_eq!(many.passwords()[1].hex(), format!("{:064x}", 1));
    let none = format!("{0} {1}", hashes.join(" "), hashes.join(" ").replace('#', "!"));
    assert!(user(&none).unwrap().passwords().is_empty());
}

#[test]
fn a_file_is_read_whole_or_not_at_all() {
    let table = table();
    let rules = rules(&table);
    let read = |text: &str| Users::from_text(text.as_bytes(), "users.acl", &rules);
    let users = read("\nuser alice on (+get ~rw*)\r\n  \nuser bob on nopass ( +set ~a )\n").unwrap();
    let names: Vec<_> = users.iter().map(|user| user.name.clone()).collect();
    assert_eq!(names, [b"alice".to_vec(), b"bob".to_vec(), b"default".to_vec()]);
    assert!(users.default_user().is_unrestricted() && users.default_user().is_open());
    let again = read(&String::from_utf8(users.to_text()).unwrap()).unwrap();
    assert!(users.iter().eq(again.iter()));
    let end = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed";
    for (text, expected) in [
        ("user a on\nuser a off", "WARNING: Duplicate user 'a' found on line 2. "),
        ("usr a", "users.acl:1 should start with user keyword followed by the username. "),
        (
            "\nuser a +nosuch",
            "users.acl:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. ",
        ),
        ("user a x y", "users.acl:1: Syntax error. "),
        ("user a (+get", "users.acl:1: Unmatched parenthesis in selector definition."),
    ] {
        assert_eq!(String::from_utf8(read(text).unwrap_err()).unwrap(), format!("{expected}{end}"));
    }
    assert_eq!(read("user default on >pw").unwrap().default_user().passwords().len(), 1);
}

#[test]
fn channels_are_kept_where_all_patterns_are() {
    let keeps = |after: &str, before: &str| user(after).unwrap().keeps_channels_of(&user(before).unwrap());
    assert!(keeps("&a &b &c", "&a &b"));
    assert!(keeps("&*", "&a"));
    assert!(keeps("(&a) &b", "&a (&b)"));
    assert!(!keeps("&a", "&a &b"));
    assert!(!keeps("&a", "&*"));
    assert!(!keeps("", "&a"));
}

fn event(object: &str) -> Event {
    Event {
        reason: Reason::Key,
        origin: Origin::Toplevel,
        object: object.into(),
        user: b"u".to_vec(),
        client: b"id=1".to_vec(),
    }
}

#[test]
fn the_log_counts_what_is_alike_and_recent() {
    let mut log = Log::default();
    for at_ms in [0, 10, 60_010, 120_011] {
        log.add(event("a"), 3, at_ms);
    }
    let counts: Vec<_> = log.iter().map(|e| (e.count, e.id, e.created_ms, e.updated_ms)).collect();
    assert_eq!(counts, [(1, 1, 120_011, 120_011), (3, 0, 0, 60_010)]);
    for object in ["b", "c", "d"] {
        log.add(event(object), 3, 120_011);
    }
    let objects: Vec<_> = log.iter().map(|entry| entry.event.object.clone()).collect();
    assert_eq!(objects, [b"d", b"c", b"b"]);
    log.add(event("b"), 3, 120_012);
    assert_eq!(log.iter().next().map(|entry| entry.count), Some(2));
    assert_eq!(log.iter().len(), 3);
    log.add(event("b"), 0, 120_012);
    assert_eq!(log.iter().len(), 0);
}

/// The meaning of a list of rules, one after the other, for commands and keys.
#[derive(Default)]
struct Model {
    commands: BTreeSet<&'static str>,
    keys: Vec<(bool, bool, String)>,
}

impl Model {
    fn apply(&mut self, rule: &str) {
        let all = || COMMANDS.iter().map(|command| command.spec.full_name);
        let matching = |what: &str| -> Vec<&'static str> {
            match what.strip_prefix('@') {
                Some("all") => all().collect(),
                Some(category) => {
                    let has = |name: &&str| {
                        let command = COMMANDS.iter().find(|one| one.spec.full_name == *name).unwrap();
                        command.spec.acl().names().any(|one| one == category)
                    };
                    let named: Vec<_> = all().filter(has).collect();
                    let is_in = |name: &&str| named.iter().any(|one| name.starts_with(&format!("{one}|")));
                    let below: Vec<_> = all().filter(is_in).collect();
                    [named, below].concat()
                }
                None => all().filter(|name| *name == what || name.starts_with(&format!("{what}|"))).collect(),
            }
        };
        match rule.split_at(1) {
            ("+", what) => self.commands.extend(matching(what)),
            ("-", what) => matching(what).iter().for_each(|name| {
                self.commands.remove(name);
            }),
            _ => {
                let (access, pattern) = rule.split_once('~').unwrap();
                let all = access.is_empty();
                self.keys.push((all || access.contains('R'), all || access.contains('W'), pattern.into()));
            }
        }
    }

    fn allows(&self, command: &str, key: &str, reads: bool, writes: bool) -> bool {
        let matches = |(read, write, pattern): &(bool, bool, String)| {
            glob::matches(pattern.as_bytes(), key.as_bytes(), false)
                && (*read || !reads)
                && (*write || !writes)
        };
        // Two rules about one pattern are one of both kinds.
        let joined = self.keys.iter().map(|(_, _, pattern)| {
            let same = self.keys.iter().filter(|(_, _, other)| other == pattern);
            same.fold((false, false, pattern.clone()), |(r, w, p), one| (r | one.0, w | one.1, p))
        });
        self.commands.contains(command) && joined.collect::<Vec<_>>().iter().any(matches)
    }
}

fn rule() -> impl Strategy<Value = String> {
    let what = prop::sample::select(vec![
        "get",
        "set",
        "mget",
        "touch",
        "config",
        "config|get",
        "config|set",
        "select",
        "@all",
        "@read",
        "@write",
        "@fast",
        "@slow",
        "@admin",
    ]);
    let key = ("(%R|%W|%RW|)~", "[ab]|[ab]\\*").prop_map(|(access, pattern)| format!("{access}{pattern}"));
    prop_oneof![3 => ("[+-]", what).prop_map(|(sign, what)| format!("{sign}{what}")), 1 => key]
}

proptest! {
    #[test]
    fn users_allow_what_the_model_does(all in prop::collection::vec(rule(), 0..20)) {
        let mut model = Model::default();
        all.iter().for_each(|rule| model.apply(rule));
        let given = user(&all.join(" ")).unwrap();
        let again = user(&String::from_utf8(given.describe()).unwrap()).unwrap();
        prop_assert_eq!(&given, &again);
        for key in ["a", "b", "ab", "c"] {
            prop_assert_eq!(check(&given, &format!("get {key}")).is_ok(), model.allows("get", key, true, false));
            prop_assert_eq!(check(&given, &format!("set {key} 1")).is_ok(), model.allows("set", key, false, true));
            prop_assert_eq!(check(&given, &format!("touch {key}")).is_ok(), model.allows("touch", key, false, false));
        }
        let configures = check(&given, "config set a b").is_ok();
        prop_assert_eq!(configures, model.commands.contains("config|set"));
    }

    #[test]
    fn any_bytes_make_a_user_or_an_error(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..6)) {
        let table = table();
        let rules = rules(&table);
        if let Ok(user) = User::new(b"u", &rules).with_rules(&rules, &Roles::default(), all.iter().map(Vec::as_slice)) {
            let users = Users::from_text(&user.line(), "f", &rules).unwrap();
            prop_assert_eq!(&**users.get(b"u").unwrap(), &user);
        }
        prop_assert!(Users::from_text(&all.join(&b' '), "f", &rules).is_err() || all.concat().trim_ascii().is_empty());
    }
}

/// Users with two roles: `reader`, which `ann` and `bob` have, and `writer`, which `bob` has.
fn with_roles() -> Users {
    let table = table();
    let mut users = Users::new(&rules(&table));
    users.set_role(&rules(&table), b"reader", words("~r:* &news +get (+set ~w:*)")).unwrap();
    users.set_role(&rules(&table), b"writer", words("~x:* +set db=1")).unwrap();
    users.set_user(&rules(&table), b"ann", words("on role=reader ~a:* +mget")).unwrap();
    users.set_user(&rules(&table), b"bob", words("on ROLE=writer,reader,writer")).unwrap();
    users
}

fn lines_of(users: &Users) -> Vec<String> {
    users.to_text().split(|byte| *byte == b'\n').map(|line| String::from_utf8(line.into()).unwrap()).collect()
}

#[test]
fn a_request_is_allowed_by_a_selector_of_the_user_or_of_a_role() {
    let users = with_roles();
    let asked =
        |name: &str, db: usize, request: &str| check_in(users.get(name.as_bytes()).unwrap(), db, request);
    for (name, db, request, expected) in [
        ("ann", 0, "get r:1", Ok(())),
        ("ann", 0, "set w:1 x", Ok(())),
        ("ann", 0, "mget a:1 a:2", Ok(())),
        ("ann", 0, "publish news x", Err(Denial::Command)),
        // No selector has both, and the furthest reason is the one that is reported.
        ("ann", 0, "get w:1", Err(Denial::Key(1))),
        ("ann", 0, "mget r:1", Err(Denial::Key(1))),
        ("ann", 0, "set x:1 x", Err(Denial::Key(1))),
        ("bob", 1, "set x:1 x", Ok(())),
        ("bob", 0, "set x:1 x", Err(Denial::Key(1))),
        ("bob", 0, "get r:1", Ok(())),
        ("bob", 0, "flushall", Err(Denial::Command)),
    ] {
        assert_eq!(asked(name, db, request), expected, "{name} {db} {request}");
    }
    let ann = users.get(b"ann").unwrap();
    assert!(ann.allows_channel(b"news", false) && !ann.allows_channel(b"other", false));
    assert!(ann.may_read_key(b"r:1") && !ann.may_read_key(b"x:1") && !ann.is_unrestricted());
}

#[test]
fn a_prefix_is_allowed_by_a_pattern_that_covers_it() {
    for (rules, prefix, reads, writes) in [
        ("on", "a:", false, false),
        ("allkeys", "", true, true),
        ("~a:*", "a:", true, true),
        ("~a:*", "a:b:", true, true),
        ("~a:*", "a", false, false),
        ("~a:*", "", false, false),
        ("%R~a:*", "a:", true, false),
        ("%W~a:*", "a:", false, false),
        // One pattern or selector has to cover it.
        ("%R~a:* %W~a*", "a:", true, false),
        ("~b (%R~a:*)", "a:", true, false),
        ("~a:[bc*", "a:b", false, false),
    ] {
        let user = user(rules).unwrap();
        let given = [false, true].map(|writes| user.may_use_prefix(prefix.as_bytes(), writes));
        assert_eq!(given, [reads, writes], "{rules}: {prefix}");
    }
}

#[test]
fn a_change_of_a_role_reaches_its_users_at_once() {
    let table = table();
    let mut users = with_roles();
    let before = users.clone();
    users.set_role(&rules(&table), b"reader", words("resetchannels resetkeys ~z")).unwrap();
    let ann = users.get(b"ann").unwrap();
    assert_eq!(check(ann, "get r:1"), Err(Denial::Key(1)));
    assert_eq!(check(ann, "get z"), Ok(()));
    assert!(!ann.keeps_channels_of(before.get(b"ann").unwrap()));
    assert_eq!(check(before.get(b"ann").unwrap(), "get r:1"), Ok(()));
    // One that allows everything makes its users unrestricted, until it does not.
    users.set_role(&rules(&table), b"reader", words("allkeys allchannels +@all")).unwrap();
    assert!(users.get(b"ann").unwrap().is_unrestricted());
    users.set_role(&rules(&table), b"reader", words("-get")).unwrap();
    assert!(!users.get(b"ann").unwrap().is_unrestricted());
    users.set_user(&rules(&table), b"ann", words("reset")).unwrap();
    assert_eq!(users.get(b"ann").unwrap().roles().len(), 0);
}

#[test]
fn roles_are_given_whole_and_removed_when_no_user_has_them() {
    let table = table();
    let mut users = with_roles();
    let names = |users: &Users, name: &[u8]| -> Vec<Vec<u8>> {
        users.get(name).unwrap().roles().iter().map(|role| role.name.clone()).collect()
    };
    assert_eq!(names(&users, b"bob"), [b"writer".to_vec(), b"reader".to_vec()]);
    for (rule, why) in [
        ("role=", "Syntax error"),
        ("role=,", "Syntax error"),
        ("role=,reader", "Syntax error"),
        ("role=reader,", "Syntax error"),
        ("role=reader,,writer", "Syntax error"),
        ("role=reader,none", "The specified ACL role does not exist"),
        ("role=Reader", "The specified ACL role does not exist"),
    ] {
        let error = users.set_user(&rules(&table), b"bob", words(rule)).unwrap_err();
        assert_eq!(text(error), format!("ERR Error in ACL SETUSER modifier '{rule}': {why}"));
    }
    assert_eq!(names(&users, b"bob"), [b"writer".to_vec(), b"reader".to_vec()]);
    assert_eq!(users.remove_roles(&[b"none", b"reader"]), Err(&b"reader"[..]));
    users.set_user(&rules(&table), b"bob", words("role=reader")).unwrap();
    assert_eq!(users.remove_roles(&[b"writer", b"none", b"writer"]), Ok(1));
    users.set_user(&rules(&table), b"bob", words("resetroles")).unwrap();
    assert!(users.remove(b"ann"));
    assert_eq!(users.remove_roles(&[b"reader"]), Ok(1));
    assert_eq!(users.roles().iter().len(), 0);
}

#[test]
fn a_role_takes_no_rules_of_users() {
    let table = table();
    let mut users = with_roles();
    for rule in [
        "on",
        "OFF",
        "nopass",
        "resetpass",
        "reset",
        "sanitize-payload",
        "skip-sanitize-payload",
        ">p",
        "<p",
        "#p",
        "!p",
        "role=reader",
        "Role=",
        "resetroles",
    ] {
        let error = users.set_role(&rules(&table), b"reader", words(rule)).unwrap_err();
        assert_eq!(
            error.role_reply().to_string(),
            format!("ERR Error in ACL SETROLE modifier '{rule}': Syntax error")
        );
    }
    let open = users.set_role(&rules(&table), b"reader", words("+get (+set ~x")).unwrap_err();
    let expected = "ERR Unmatched parenthesis in selector definition starting at '(+set'.";
    assert_eq!(open.role_reply().to_string(), expected);
    let unknown = users.set_role(&rules(&table), b"new", words("+get +nothing")).unwrap_err();
    let expected = "ERR Error in ACL SETROLE modifier '+nothing': Unknown command or category name in ACL";
    assert_eq!(unknown.role_reply().to_string(), expected);
    assert!(users.roles().get(b"new").is_none());
}

#[test]
fn names_of_roles_come_back_from_a_file() {
    for name in ["read-only", "app.reader", "role:admin", "a=b", "v2", "~"] {
        assert_eq!(role_name_fault(name.as_bytes()), None, "{name}");
    }
    for (name, fault) in [
        ("", "Role names can't be empty"),
        ("a,b", "Role names can't contain commas"),
        ("q\"x", "Role names can't contain quotes or backslashes"),
        ("q'x", "Role names can't contain quotes or backslashes"),
        ("q\\x", "Role names can't contain quotes or backslashes"),
        ("a b", "Role names can only contain printable ASCII characters"),
        ("tab\t", "Role names can only contain printable ASCII characters"),
        ("caf\u{e9}", "Role names can only contain printable ASCII characters"),
    ] {
        assert_eq!(role_name_fault(name.as_bytes()), Some(fault), "{name}");
    }
}

#[test]
fn roles_come_first_in_a_file_and_may_stand_anywhere_in_it() {
    let table = table();
    let rules = rules(&table);
    let users = with_roles();
    assert_eq!(
        lines_of(&users)[..4],
        [
            "role reader ~r:* resetchannels &news -@all +get (~w:* resetchannels -@all +set)",
            "role writer ~x:* resetchannels db=1 -@all +set",
            "user ann on sanitize-payload ~a:* resetchannels -@all +mget role=reader",
            "user bob on sanitize-payload resetchannels -@all role=writer,reader",
        ]
    );
    let mut lines = lines_of(&users);
    let again = Users::from_text(lines.join("\n").as_bytes(), "f", &rules).unwrap();
    assert_eq!(lines_of(&again), lines);
    lines.reverse();
    let reversed = Users::from_text(lines.join("\n").as_bytes(), "f", &rules).unwrap();
    assert_eq!(lines_of(&reversed), lines_of(&users));
    for (file, fault) in [
        ("role", "f:1: role line requires a role name. "),
        ("role a,b +get", "f:1: invalid role name 'a,b': Role names can't contain commas. "),
        ("role r\nrole r +get", "WARNING: Duplicate role 'r' found on line 2. "),
        ("role r >p", "f:1: Error in ACL SETROLE modifier '>p': Syntax error. "),
        ("role r (+get", "f:1: Unmatched parenthesis in selector definition starting at '(+get'.. "),
        ("user u role=r", "f:1: The specified ACL role does not exist. "),
        ("roles r", "f:1 should start with user keyword followed by the username. "),
    ] {
        let error = String::from_utf8(Users::from_text(file.as_bytes(), "f", &rules).unwrap_err()).unwrap();
        assert!(error.starts_with(fault), "{file}: {error}");
    }
}

#[test]
fn declared_roles_are_checked_before_and_when_they_are_taken_up() {
    let table = table();
    let rules = rules(&table);
    let line = |text: &str| -> Vec<Vec<u8>> { words(text).into_iter().map(<[u8]>::to_vec).collect() };
    assert_eq!(check_role(&rules, &line("r +get +later (~a) role")), Err((4, "Syntax error".into())));
    assert_eq!(check_role(&rules, &line("r +get +later")), Ok(()));
    assert!(check_role(&rules, &line("a,b")).unwrap_err().1.starts_with("Role names can't be empty and can"));
    assert_eq!(check_user(&rules, &line("u role=later on")), Ok(()));
    let mut users = Users::new(&rules);
    assert_eq!(
        users.declare_role(&rules, &line("r +later")).unwrap_err(),
        "Error loading ACL role 'r': Error in ACL SETROLE modifier '+later': Unknown command or category name in ACL"
    );
    users.declare_role(&rules, &line("r +get ~*")).unwrap();
    assert_eq!(users.declare_user(&rules, &line("u on role=r")), Ok(true));
    assert_eq!(users.declare_user(&rules, &line("default role=r")), Ok(false));
    let names: Vec<_> = users.holders(b"r").map(|user| user.name.clone()).collect();
    assert_eq!(names, [b"default".to_vec(), b"u".to_vec()]);
    assert_eq!(
        users.declare_user(&rules, &line("v role=s")).unwrap_err(),
        "Error loading ACL rule 'role=s' for the user named 'v': The specified ACL role does not exist"
    );
}
