//! Requests of clients and their replies, to the byte where clients match on them.

use martlet_base::random::Random;
use martlet_protocol::quote::split;
use martlet_protocol::request::OwnedArgs;

use super::{Access, Core, Facts, registry};
use crate::config::rewrite::Line;
use crate::machine::{Sentinel, Settings, World};

struct Nowhere;

impl World for Nowhere {
    fn save(&mut self, _: &[Line]) -> std::io::Result<()> {
        Ok(())
    }

    fn resolve(&mut self, _: &str) -> Option<std::net::IpAddr> {
        None
    }

    fn is_executable(&self, _: &str) -> bool {
        false
    }
}

fn core(requirepass: Option<&[u8]>) -> Core {
    let mut sentinel = Sentinel::new(Settings::default(), Random::seeded(1), 0, Box::new(Nowhere));
    sentinel.start(0);
    let facts = Facts {
        config_file: Default::default(),
        executable: Default::default(),
        pid: 1,
        started_ms: 0,
        run_id: String::new(),
        clients_max: 10,
        cpu_seconds: || [0.0; 2],
    };
    let mut core = Core::new(sentinel, Access::new(requirepass), facts);
    (1..=3).for_each(|id| core.open(id, format!("127.0.0.1:{id}"), "127.0.0.1:26379".into(), 9));
    core.take_outputs();
    core
}

/// A session's reply to a line, with the messages published to it.
fn ask(core: &mut Core, id: u64, line: &str) -> String {
    let words = split(line.as_bytes()).unwrap();
    core.execute(id, OwnedArgs::from_slices(words.iter().map(Vec::as_slice)).view());
    core.take_outputs();
    let session = core.sessions.get_mut(&id).unwrap();
    String::from_utf8(std::mem::take(&mut session.out)).unwrap()
}

#[test]
fn errors_are_in_redis_words() {
    let mut core = core(None);
    for (line, expected) in [
        ("get x", "-ERR unknown command 'get', with args beginning with: 'x' \r\n"),
        ("quit", "-ERR unknown command 'quit', with args beginning with: \r\n"),
        ("sentinel", "-ERR wrong number of arguments for 'sentinel' command\r\n"),
        ("sentinel foo", "-ERR unknown subcommand 'foo'. Try SENTINEL HELP.\r\n"),
        ("sentinel masters x", "-ERR wrong number of arguments for 'sentinel|masters' command\r\n"),
        ("sentinel master m", "-ERR No such master with that name\r\n"),
        ("sentinel get-master-addr-by-name m", "*-1\r\n"),
        ("sentinel monitor m 10.0.0.1 x 1", "-ERR Invalid port\r\n"),
        ("sentinel monitor m 10.0.0.1 1 x", "-ERR Invalid quorum\r\n"),
        ("sentinel monitor m 10.0.0.1 1 0", "-ERR Quorum must be 1 or greater.\r\n"),
        ("sentinel monitor m nowhere 1 1", "-ERR Invalid IP address or hostname specified\r\n"),
        ("sentinel monitor m 10.0.0.1 70000 1", "-ERR Invalid port number.\r\n"),
        ("sentinel monitor \"a\\nb\" 10.0.0.1 1 1", "-ERR Invalid master name\r\n"),
        ("sentinel monitor m 10.0.0.1 6379 2", "+OK\r\n"),
        ("sentinel monitor m 10.0.0.1 6379 2", "-ERR Duplicate master name.\r\n"),
        ("sentinel get-primary-addr-by-name m", "*2\r\n$8\r\n10.0.0.1\r\n$4\r\n6379\r\n"),
        ("sentinel failover m", "-NOGOODSLAVE No suitable replica to promote\r\n"),
        ("sentinel set m quorum x", "-ERR Invalid argument 'x' for SENTINEL SET 'quorum'\r\n"),
        ("sentinel set m nope 1", "-ERR Unknown option or number of arguments for SENTINEL SET 'nope'\r\n"),
        ("sentinel set m quorum 1 parallel-syncs 2", "+OK\r\n"),
        (
            "sentinel ckquorum m",
            "+OK 1 usable Sentinels. Quorum and failover authorization can be reached\r\n",
        ),
        ("sentinel set m quorum 3", "+OK\r\n"),
        (
            "sentinel ckquorum m",
            "-NOQUORUM 1 usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master\r\n",
        ),
        ("sentinel is-master-down-by-addr 10.0.0.1 6379 0 *", "*3\r\n:0\r\n$1\r\n*\r\n:0\r\n"),
        ("sentinel is-master-down-by-addr 10.0.0.1 6379 4 abc", "*3\r\n:0\r\n$3\r\nabc\r\n:4\r\n"),
        ("sentinel config get announce-p*", "*2\r\n$13\r\nannounce-port\r\n$1\r\n0\r\n"),
        (
            "sentinel config set announce-port -1",
            "-ERR Invalid value '-1' to SENTINEL CONFIG SET 'announce-port'\r\n",
        ),
        (
            "sentinel config set announce-ip",
            "-ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> <value> [<param> <value> ...] are supported.\r\n",
        ),
        ("sentinel debug ping-period 0", "-ERR Invalid argument '0' for SENTINEL DEBUG 'ping-period'\r\n"),
        ("sentinel reset m*", ":1\r\n"),
        ("sentinel simulate-failure x", "-ERR Unknown failure simulation specified\r\n"),
        ("role", "*2\r\n$8\r\nsentinel\r\n*1\r\n$1\r\nm\r\n"),
        ("publish x y", "-ERR Only HELLO messages are accepted by Sentinel instances.\r\n"),
        ("sentinel remove m", "+OK\r\n"),
    ] {
        assert_eq!(ask(&mut core, 1, line), expected, "{line}");
    }
}

#[test]
fn events_reach_who_is_subscribed_in_both_protocols() {
    let mut core = core(None);
    assert_eq!(ask(&mut core, 1, "subscribe +monitor"), "*3\r\n$9\r\nsubscribe\r\n$8\r\n+monitor\r\n:1\r\n");
    assert!(ask(&mut core, 2, "hello 3").contains("$8\r\nsentinel\r\n"));
    assert_eq!(ask(&mut core, 2, "psubscribe *"), ">3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n");
    assert_eq!(ask(&mut core, 3, "sentinel monitor m 10.0.0.1 6379 2"), "+OK\r\n");
    let taken = |core: &mut Core, id: u64| {
        String::from_utf8(std::mem::take(&mut core.sessions.get_mut(&id).unwrap().out)).unwrap()
    };
    let event = "$8\r\n+monitor\r\n$32\r\nmaster m 10.0.0.1 6379 quorum 2\r\n".replace("$32", "$31");
    assert_eq!(taken(&mut core, 1), format!("*3\r\n$7\r\nmessage\r\n{event}"));
    assert_eq!(taken(&mut core, 2), format!(">4\r\n$8\r\npmessage\r\n$1\r\n*\r\n{event}"));
    assert!(ask(&mut core, 1, "role").starts_with("-ERR Can't execute 'role': only (P|S)SUBSCRIBE"));
    assert_eq!(ask(&mut core, 1, "ping"), "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_eq!(ask(&mut core, 1, "unsubscribe"), "*3\r\n$11\r\nunsubscribe\r\n$8\r\n+monitor\r\n:0\r\n");
    assert_eq!(ask(&mut core, 1, "ping"), "+PONG\r\n");
}

#[test]
fn users_are_kept_to_their_rules() {
    let mut core = core(Some(b"secret"));
    assert_eq!(ask(&mut core, 1, "ping"), "-NOAUTH Authentication required.\r\n");
    assert!(ask(&mut core, 1, "auth wrong").starts_with("-WRONGPASS"));
    assert_eq!(ask(&mut core, 1, "auth secret"), "+OK\r\n");
    let rules = "acl setuser app on >pw allchannels -@all +auth +hello +ping +role +client|setname +sentinel|get-master-addr-by-name";
    assert_eq!(ask(&mut core, 1, rules), "+OK\r\n");
    assert_eq!(ask(&mut core, 2, "auth app pw"), "+OK\r\n");
    assert_eq!(ask(&mut core, 2, "sentinel get-master-addr-by-name m"), "*-1\r\n");
    assert_eq!(
        ask(&mut core, 2, "sentinel masters"),
        "-NOPERM User app has no permissions to run the 'sentinel|masters' command\r\n"
    );
    assert!(ask(&mut core, 1, "acl log").contains("sentinel|masters"));
    assert_eq!(ask(&mut core, 1, "acl deluser app"), ":1\r\n");
    assert!(core.sessions[&2].is_killed && !core.sessions[&1].is_killed);
    assert_eq!(ask(&mut core, 1, "client kill type normal"), ":1\r\n");
    assert!(core.sessions[&3].is_killed);
}

#[test]
fn roles_give_rights_and_are_written_with_the_users() {
    let mut core = core(None);
    assert_eq!(ask(&mut core, 1, "acl setrole watcher +ping +sentinel|masters"), "+OK\r\n");
    assert_eq!(ask(&mut core, 1, "acl setuser app on >pw role=watcher"), "+OK\r\n");
    assert_eq!(ask(&mut core, 2, "auth app pw"), "+OK\r\n");
    assert_eq!(ask(&mut core, 2, "ping"), "+PONG\r\n");
    assert_eq!(ask(&mut core, 1, "acl setrole watcher -ping"), "+OK\r\n");
    assert!(ask(&mut core, 2, "ping").starts_with("-NOPERM"));
    assert!(ask(&mut core, 2, "sentinel masters").starts_with('*'));
    let lines: Vec<String> =
        core.user_lines.borrow().iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    assert_eq!(lines[0], "role watcher resetchannels -@all +sentinel|masters -ping");
    assert!(lines[1].starts_with("user app on") && lines[1].ends_with(" role=watcher"), "{lines:?}");
    assert!(ask(&mut core, 1, "acl getrole watcher").ends_with("$5\r\nusers\r\n*1\r\n$3\r\napp\r\n"));
    assert_eq!(ask(&mut core, 1, "acl roles"), "*1\r\n$7\r\nwatcher\r\n");
    assert!(ask(&mut core, 1, "acl delrole watcher").starts_with("-ERR Role 'watcher' is assigned"));
    assert_eq!(ask(&mut core, 1, "acl deluser app"), ":1\r\n");
    assert_eq!(ask(&mut core, 1, "acl delrole watcher"), ":1\r\n");
}

#[test]
fn the_table_has_the_commands_of_a_sentinel() {
    let mut names: Vec<&str> = registry().commands().map(|entry| entry.spec.name).collect();
    names.sort();
    let expected = [
        "acl",
        "auth",
        "client",
        "command",
        "hello",
        "info",
        "ping",
        "psubscribe",
        "publish",
        "punsubscribe",
        "role",
        "sentinel",
        "shutdown",
        "subscribe",
        "unsubscribe",
    ];
    assert_eq!(names, expected);
    let mut core = core(None);
    for section in ["info", "info all", "info server sentinel replication"] {
        let text = ask(&mut core, 1, section);
        assert!(text.contains("redis_version:") && text.contains("sentinel_tilt:0\r\n"), "{section}");
        assert!(!text.contains("used_memory"));
    }
    assert!(!ask(&mut core, 1, "info cpu").contains("sentinel_tilt"));
    assert!(ask(&mut core, 1, "command docs sentinel").contains("sentinel|failover"));
    assert!(ask(&mut core, 1, "shutdown nosave").is_empty() && core.is_shutting_down);
}

/// CLIENT TRACKING and its kin, with the answers of Redis 8.6.2's Sentinel.
#[test]
fn tracking_is_kept_and_shown() {
    let mut core = core(None);
    for (line, expected) in [
        (
            "client trackinginfo",
            "*6\r\n$5\r\nflags\r\n*1\r\n$3\r\noff\r\n$8\r\nredirect\r\n:-1\r\n$8\r\nprefixes\r\n*0\r\n",
        ),
        ("client getredir", ":-1\r\n"),
        (
            "client caching yes",
            "-ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled\r\n",
        ),
        ("client tracking", "-ERR wrong number of arguments for 'client|tracking' command\r\n"),
        ("client tracking xx", "-ERR syntax error\r\n"),
        ("client tracking on redirect 99", "-ERR The client ID you want redirect to does not exist\r\n"),
        ("client tracking on redirect x", "-ERR value is not an integer or out of range\r\n"),
        ("client tracking on prefix a", "-ERR PREFIX option requires BCAST mode to be enabled\r\n"),
        ("client tracking on optin redirect 2", "+OK\r\n"),
        ("client getredir", ":2\r\n"),
        ("client caching yes", "+OK\r\n"),
        (
            "client trackinginfo",
            "*6\r\n$5\r\nflags\r\n*3\r\n$2\r\non\r\n$5\r\noptin\r\n$11\r\ncaching-yes\r\n$8\r\nredirect\r\n:2\r\n$8\r\nprefixes\r\n*0\r\n",
        ),
        ("ping", "+PONG\r\n"),
        (
            "client trackinginfo",
            "*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$5\r\noptin\r\n$8\r\nredirect\r\n:2\r\n$8\r\nprefixes\r\n*0\r\n",
        ),
        ("client tracking off", "+OK\r\n"),
        ("client getredir", ":-1\r\n"),
        ("client unblock 1", ":0\r\n"),
        ("client unblock 1 now", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR\r\n"),
    ] {
        assert_eq!(ask(&mut core, 1, line), expected, "{line}");
    }
}

#[test]
fn a_pause_holds_requests_until_it_is_over() {
    let mut core = core(None);
    for (line, expected) in [
        ("client pause", "-ERR wrong number of arguments for 'client|pause' command\r\n"),
        ("client pause 1 2", "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n"),
        ("client pause abc", "-ERR timeout is not an integer or out of range\r\n"),
        ("client pause -1", "-ERR timeout is negative\r\n"),
        ("client unpause 1", "-ERR wrong number of arguments for 'client|unpause' command\r\n"),
    ] {
        assert_eq!(ask(&mut core, 1, line), expected, "{line}");
    }
    let waits = |core: &Core, line: &str| {
        let words = split(line.as_bytes()).unwrap();
        core.must_wait(1, &OwnedArgs::from_slices(words.iter().map(Vec::as_slice)).view())
    };
    let now_ms = core.now_ms;
    assert_eq!(ask(&mut core, 1, "client pause 50 write"), "+OK\r\n");
    assert_eq!([waits(&core, "publish c m"), waits(&core, "ping")], [true, false]);
    assert_eq!(ask(&mut core, 1, "client unpause"), "+OK\r\n");
    assert!(!waits(&core, "publish c m") && core.end_pause());
    assert_eq!(ask(&mut core, 1, "client pause 50"), "+OK\r\n");
    assert_eq!(ask(&mut core, 1, "client pause 20 write"), "+OK\r\n");
    core.now_ms = now_ms + 49;
    assert!(waits(&core, "ping") && !core.end_pause());
    core.now_ms = now_ms + 50;
    assert!(!waits(&core, "ping") && core.end_pause() && !core.end_pause());
}
