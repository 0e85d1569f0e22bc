//! `--cluster`: Martlet clusters that Martlet's tool makes, changes and mends; and, where redis-cli is
//! installed, the reports of both on one cluster, and the results when each does the same to a twin.

use super::{Run, ours, run};
use martlet_client::blocking::Client;
use martlet_client::resp::Reply;
use martlet_client::slot::{slot_of, tags};
use martlet_testkit::peers::is_installed;
use martlet_testkit::server::{ReservedPort, Server};
use martlet_testkit::wait::until;
use std::path::Path;
use std::process::Command;

/// Options of Martlet alone, so that news spreads soon and no node fails, however busy the machine.
const OPTIONS: &[&str] = &[
    "server",
    "--io-threads",
    "1",
    "--cluster-enabled",
    "yes",
    "--cluster-ping-interval",
    "200",
    "--cluster-node-timeout",
    "60000",
    "--repl-diskless-sync-delay",
    "0",
];

struct Node {
    server: Server,
    _bus: ReservedPort,
}

impl Node {
    fn start(more: &[&str]) -> Node {
        let bus = ReservedPort::take().unwrap();
        let port = bus.number().to_string();
        let options = [OPTIONS, &["--cluster-port", &port], more].concat();
        let server = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &options).unwrap();
        Node { server, _bus: bus }
    }

    fn address(&self) -> String {
        self.server.address().to_string()
    }

    fn ask(&self, line: &str) -> Reply {
        self.command(&line.split(' ').collect::<Vec<_>>())
    }

    fn command(&self, words: &[&str]) -> Reply {
        Client::connect(self.server.address()).unwrap().command(words).unwrap()
    }

    fn text(&self, line: &str) -> String {
        String::from_utf8_lossy(self.ask(line).text().unwrap()).into_owned()
    }

    fn id(&self) -> String {
        self.text("CLUSTER MYID")
    }

    /// How many slots it says it has.
    fn slots(&self) -> usize {
        let list = self.text("CLUSTER NODES");
        let own = list.lines().find(|line| line.contains("myself")).unwrap();
        let words = own.split(' ').skip(8).filter(|word| !word.starts_with('['));
        let count = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            last.parse::<usize>().unwrap() - first.parse::<usize>().unwrap() + 1
        };
        words.map(count).sum()
    }

    fn keys(&self) -> i64 {
        self.ask("DBSIZE").integer().unwrap()
    }
}

/// Runs our `--cluster` with an input.
fn answer(words: &[&str], input: &str) -> Run {
    run(ours(), &[&["--cluster"], words].concat(), input.as_bytes())
}

/// Runs it and expects success; returns its output.
fn manage(words: &[&str]) -> String {
    worked(answer(words, ""))
}

fn worked(run: Run) -> String {
    assert_eq!(run.status, Some(0), "{}{}", run.text(), run.errors());
    run.text()
}

/// Runs it and expects failure; returns the text of both streams.
fn refuse(words: &[&str]) -> String {
    let run = answer(words, "");
    assert_eq!(run.status, Some(1), "{}{}", run.text(), run.errors());
    run.text() + &run.errors()
}

/// Creates a cluster of this number of nodes, and waits until it serves.
fn create(count: usize, more: &[&str]) -> Vec<Node> {
    let nodes: Vec<Node> = (0..count).map(|_| Node::start(&[])).collect();
    let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
    let mut words = vec!["create"];
    words.extend(addresses.iter().map(String::as_str));
    words.extend(more.iter().copied().chain(["--cluster-yes"]));
    let said = manage(&words);
    assert!(said.contains("[OK] All 16384 slots covered."), "{said}");
    until_agreed(&nodes);
    nodes
}

fn until_agreed(nodes: &[Node]) {
    until("the cluster is up", || {
        nodes.iter().all(|node| node.text("CLUSTER INFO").contains("cluster_state:ok"))
    });
    until("all agree", || nodes.iter().all(|node| answer(&["check", &node.address()], "").status == Some(0)));
}

/// Sets `key:0`, `key:1` and so on wherever they belong.
fn fill(node: &Node, keys: usize) {
    let lines: String = (0..keys).map(|key| format!("SET key:{key} {key}\n")).collect();
    let port = node.server.address().port().to_string();
    let said = worked(run(ours(), &["-c", "-p", &port], lines.as_bytes()));
    assert_eq!(said.matches("OK").count(), keys, "{said}");
}

/// Whether all of them are there.
fn expect_filled(node: &Node, keys: usize) {
    let lines: String = (0..keys).map(|key| format!("GET key:{key}\n")).collect();
    let port = node.server.address().port().to_string();
    let said = worked(run(ours(), &["-c", "-p", &port], lines.as_bytes()));
    let values = said.lines().filter(|line| !line.starts_with("-> Redirected"));
    assert!(values.eq((0..keys).map(|key| key.to_string())), "keys are missing");
}

#[test]
fn a_cluster_is_created_and_looked_at() {
    let nodes = create(6, &["--cluster-replicas", "1"]);
    let first = nodes[0].address();
    let primaries: Vec<&Node> = nodes.iter().filter(|node| node.slots() > 0).collect();
    assert_eq!(primaries.iter().map(|node| node.slots()).collect::<Vec<_>>(), [5461, 5462, 5461]);
    fill(&nodes[0], 100);
    let said = manage(&["info", &first]);
    assert!(said.contains("[OK] 100 keys in 3 masters.\n0.01 keys per slot on average.\n"), "{said}");
    assert_eq!(said.matches(" | 1 slaves.").count(), 3, "{said}");
    let (host, port) = first.split_once(':').unwrap();
    assert_eq!(manage(&["check", host, port]).matches("1 additional replica(s)").count(), 3);
    let said = manage(&["call", &first, "ECHO", "two", "words", "--cluster-only-replicas"]);
    assert_eq!(said.matches("ERR wrong number of arguments for 'echo' command").count(), 3, "{said}");
    let said = manage(&["call", &first, "ROLE", "--cluster-only-primaries"]);
    assert_eq!(said.matches(": master\n").count(), 3, "{said}");
    // There is no file to write the setting to.
    let said = manage(&["set-timeout", &first, "61000"]);
    assert!(said.ends_with(">>> New node timeout set. 0 OK, 6 ERR.\n"), "{said}");
    assert!(refuse(&["set-timeout", &first, "99"]).contains("is a bad idea."));
    assert!(refuse(&["create", &first]).contains("is not empty. Either the node already knows other nodes"));
    assert!(refuse(&["create", "nonsense"]).contains("Invalid address format: nonsense"));
    assert!(refuse(&["nonsense"]).contains("Unknown --cluster subcommand"));
    assert!(refuse(&["call", &first]).contains("[ERR] Wrong number of arguments for specified"));
    assert!(refuse(&["check", "nonsense"]).contains("[ERR] Invalid arguments: you need to pass either"));
}

#[test]
fn a_plan_can_be_declined_and_few_primaries_are_refused() {
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&[])).collect();
    let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
    let [one, two, three] = [0, 1, 2].map(|index| addresses[index].as_str());
    let run = answer(&["create", one, two, three], "no\n");
    assert_eq!(run.status, Some(0), "{}", run.text());
    assert!(run.text().ends_with("Can I set the above configuration? (type 'yes' to accept): "));
    let said = refuse(&["create", one, two]);
    assert!(said.contains("*** Redis Cluster requires at least 3 master nodes.\n"), "{said}");
    assert_eq!(nodes.iter().map(Node::slots).sum::<usize>(), 0);
    // valkey-cli asks, and does it.
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("valkey-cli");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_martlet"), &link).unwrap();
    let said = worked(super::run(Command::new(&link), &["--cluster", "create", one, two], b"yes\nyes\n"));
    assert!(said.contains("Requested to create a cluster with 2 primaries and 0 replicas per primary.\n"));
    assert!(said.contains("Primary[1] -> Slots 8192 - 16383\n"), "{said}");
    until_agreed(&nodes[..2]);
}

#[test]
fn slots_move_under_writes() {
    let nodes = create(3, &[]);
    fill(&nodes[0], 3000);
    let (first, from, to) = (nodes[0].address(), nodes[0].id(), nodes[2].id());
    let words = ["reshard", &first, "--cluster-from", &from, "--cluster-to", &to, "--cluster-slots", "300"];
    let said = std::thread::scope(|scope| {
        let writer = scope.spawn(|| fill(&nodes[1], 3000));
        let said = manage(&[&words[..], &["--cluster-yes", "--cluster-pipeline", "3"]].concat());
        writer.join().unwrap();
        said
    });
    assert!(said.contains("\nReady to move 300 slots.\n  Source nodes:\n    M: "), "{said}");
    assert!(said.contains(&format!("    Moving slot 299 from {from}\n")), "{said}");
    assert_eq!(nodes.iter().map(Node::slots).collect::<Vec<_>>(), [5161, 5462, 5761]);
    until_agreed(&nodes);
    expect_filled(&nodes[1], 3000);
    assert_eq!(nodes.iter().map(Node::keys).sum::<i64>(), 3000);
}

#[test]
fn a_reshard_asks_for_what_it_is_not_told() {
    let nodes = create(3, &[]);
    let (first, to) = (nodes[0].address(), nodes[0].id());
    let (from, other) = (nodes[1].id(), nodes[2].id());
    let declined = answer(&["reshard", &first], &format!("0\nmany\n5\n\n{to}\n{to}\n{from}\ndone\nno\n"));
    assert_eq!(declined.status, Some(1));
    let said = declined.text();
    assert_eq!(said.matches("How many slots do you want to move (from 1 to 16384)? ").count(), 3, "{said}");
    assert_eq!(said.matches("What is the receiving node ID? ").count(), 2, "{said}");
    assert!(said.contains("*** It is not possible to use the target node as source node.\n"), "{said}");
    assert!(said.ends_with("Do you want to proceed with the proposed reshard plan (yes/no)? "), "{said}");
    let unknown = answer(&["reshard", &first], "5\nnobody\n");
    assert!(unknown.status == Some(1) && unknown.text().contains("(nobody) is not known or not a master"));
    assert_eq!(answer(&["reshard", &first], "5\n").status, Some(1), "the input has ended");
    let done = answer(&["reshard", &first], &format!("6\n{to}\n{from}\n{other}\ndone\nyes\n"));
    let said = worked(done);
    assert!(said.contains("Source node #3: \nReady to move 6 slots."), "{said}");
    assert_eq!(nodes.iter().map(Node::slots).collect::<Vec<_>>(), [5467, 5458, 5459]);
}

#[test]
fn slots_move_all_at_once() {
    let nodes = create(3, &[]);
    fill(&nodes[0], 1000);
    let (first, to) = (nodes[0].address(), nodes[2].id());
    let words = ["reshard", &first, "--cluster-from", "all", "--cluster-to", &to, "--cluster-slots", "200"];
    let said = manage(&[&words[..], &["--cluster-yes", "--cluster-use-atomic-slot-migration"]].concat());
    assert_eq!(said.matches("Moving slots [").count(), 2, "{said}");
    until("the owners are known", || {
        nodes[2].slots() == 5661 && nodes[0].slots() + nodes[1].slots() == 10_723
    });
    until_agreed(&nodes);
    let said = manage(&["rebalance", &first, "--cluster-use-atomic-slot-migration"]);
    assert!(said.contains(&"#".repeat(90)), "{said}");
    until_agreed(&nodes);
    expect_filled(&nodes[0], 1000);
}

#[test]
fn nodes_come_and_go() {
    let nodes = create(3, &[]);
    fill(&nodes[0], 500);
    let first = nodes[0].address();
    let library = "#!lua name=lib\nredis.register_function('f', function() return 'found' end)";
    manage(&["call", &first, "FUNCTION", "LOAD", library]);
    let primary = Node::start(&[]);
    let said = manage(&["add-node", &primary.address(), &first]);
    assert!(said.ends_with("[OK] New node added correctly.\n"), "{said}");
    assert_eq!(primary.ask("FCALL f 0").text(), Some(&b"found"[..]));
    let nodes: Vec<Node> = nodes.into_iter().chain([primary]).collect();
    until_agreed(&nodes);
    let said = refuse(&["add-node", &nodes[3].address(), &first]);
    assert!(said.contains("is not empty. Either"), "{said}");
    let simulated = manage(&["rebalance", &first, "--cluster-use-empty-masters", "--cluster-simulate"]);
    assert_eq!((simulated.matches('#').count(), nodes[3].slots()), (4096, 0), "{simulated}");
    let weight = format!("{}=0.02", nodes[3].id());
    let said = manage(&["rebalance", &first, "--cluster-weight", &weight, "--cluster-use-empty-primaries"]);
    assert!(said.contains(">>> Rebalancing across 4 nodes. Total weight = 3.02\n"), "{said}");
    assert_eq!(nodes[3].slots(), 109);
    until_agreed(&nodes);

    let replica = Node::start(&[]);
    let id = nodes[3].id();
    manage(&["add-node", &replica.address(), &first, "--cluster-replica", "--cluster-primary-id", &id]);
    let follows = |id: &str| replica.text("CLUSTER NODES").contains(&format!("myself,slave {id} "));
    until("it is its replica", || follows(&id));
    until("the first knows", || nodes[0].text("CLUSTER NODES").contains(&format!("slave {id} ")));
    let said = refuse(&["del-node", &first, &id]);
    assert!(said.contains("is not empty! Reshard data away and try again."), "{said}");
    let weight = format!("{id}=0");
    manage(&["rebalance", &first, "--cluster-weight", &weight]);
    until("all have heard of it", || answer(&["check", &first], "").status == Some(0));
    let said = manage(&["del-node", &first, &id.to_uppercase()]);
    assert!(said.ends_with(">>> Sending CLUSTER RESET SOFT to the deleted node.\n"), "{said}");
    until("it is forgotten", || nodes[3].text("CLUSTER NODES").lines().count() == 1);
    until_agreed(&nodes[..3]);
    expect_filled(&nodes[0], 500);
    assert!(refuse(&["del-node", &first, "nobody"]).contains("[ERR] No such node ID nobody\n"));
}

#[test]
fn a_move_that_was_cut_off_is_mended() {
    let nodes = create(3, &[]);
    let slot = slot_of(b"{7}");
    let owner = nodes.iter().position(|node| !matches!(node.ask("SET {7}0 v"), Reply::Error(_)));
    let owner = owner.unwrap();
    (1..50).for_each(|key| assert!(!nodes[owner].ask(&format!("SET {{7}}{key} v")).is_error()));
    let target = (owner + 1) % 3;
    let first = nodes[2].address();
    let ok = |node: &Node, line: String| assert_eq!(node.text(&line), "OK", "{line}");
    ok(&nodes[target], format!("CLUSTER SETSLOT {slot} IMPORTING {}", nodes[owner].id()));
    ok(&nodes[owner], format!("CLUSTER SETSLOT {slot} MIGRATING {}", nodes[target].id()));
    let check = refuse(&["check", &first]);
    assert!(check.contains(&format!("[WARNING] The following slots are open: {slot}.\n")), "{check}");
    let said = manage(&["fix", &first]);
    assert!(said.contains(&format!(">>> Case 1: Moving slot {slot} from ")), "{said}");
    assert_eq!(nodes[target].ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Reply::Int(50));
    until_agreed(&nodes);

    // Some keys have moved: the rest is where most are.
    let (owner, target) = (target, owner);
    ok(&nodes[target], format!("CLUSTER SETSLOT {slot} IMPORTING {}", nodes[owner].id()));
    ok(&nodes[owner], format!("CLUSTER SETSLOT {slot} MIGRATING {}", nodes[target].id()));
    let port = nodes[target].server.address().port();
    ok(&nodes[owner], format!("MIGRATE 127.0.0.1 {port}  0 5000 KEYS {{7}}1 {{7}}2"));
    assert!(refuse(&["rebalance", &first]).contains("*** Please fix your cluster problems before"));
    let said = manage(&["fix", &first]);
    assert!(said.contains(&format!(">>> Case 2: Moving all the {slot} slot keys to its owner ")), "{said}");
    assert_eq!(nodes[owner].ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Reply::Int(50));
    until_agreed(&nodes);

    // The other end has forgotten it.
    ok(&nodes[owner], format!("CLUSTER SETSLOT {slot} MIGRATING {}", nodes[target].id()));
    let said = manage(&["fix", &first]);
    assert!(said.contains(&format!(">>> Case 4: Closing slot {slot} on ")), "{said}");
    until_agreed(&nodes);
}

#[test]
fn slots_without_an_owner_get_one() {
    let nodes = create(3, &[]);
    fill(&nodes[0], 300);
    let first = nodes[0].address();
    let held = slot_of(b"key:7");
    let empty =
        (0..16_384u16).find(|slot| (0..300).all(|key| slot_of(format!("key:{key}").as_bytes()) != *slot));
    let empty = empty.unwrap();
    for node in &nodes {
        assert_eq!(node.text(&format!("CLUSTER DELSLOTS {held} {empty}")), "OK");
    }
    let run = answer(&["fix", &first, "--cluster-yes"], "");
    assert_eq!(run.status, Some(1), "it is not done unasked: {}", run.text());
    let run = answer(&["fix", &first], "yes\nyes\n");
    let said = worked(run);
    assert!(said.contains("[ERR] Not all 16384 slots are covered by nodes.\n"), "{said}");
    assert!(said.contains("have no keys across the cluster:\n"), "{said}");
    assert!(said.contains(&format!("have keys in just one node:\n[{held}]\n")), "{said}");
    until_agreed(&nodes);
    expect_filled(&nodes[0], 300);
    assert_eq!(nodes.iter().map(Node::slots).sum::<usize>(), 16_384);
    assert!(
        manage(&["check", &first, "--cluster-search-multiple-owners"])
            .contains("[OK] No multiple owners found.")
    );
}

#[test]
fn a_single_server_is_imported() {
    let nodes = create(3, &[]);
    let first = nodes[0].address();
    let source = Server::start(Path::new(env!("CARGO_BIN_EXE_martlet")), &["server"]).unwrap();
    let mut client = Client::connect(source.address()).unwrap();
    assert!(!client.command(&["CONFIG", "SET", "requirepass", "source secret"]).unwrap().is_error());
    for key in 0..200 {
        let (key, value) = (format!("key:{key}"), key.to_string());
        assert!(!client.command(&["SET", &key, &value]).unwrap().is_error());
    }
    assert!(!client.command(&["RPUSH", "list", "a", "b"]).unwrap().is_error());
    let from = source.address().to_string();
    assert!(refuse(&["import", &first]).contains("Option '--cluster-from' is required"));
    assert!(refuse(&["import", &first, "--cluster-from", &from]).contains("NOAUTH"));
    let words = ["import", &first, "--cluster-from", &from, "--cluster-from-pass", "source secret"];
    let said = manage(&[&words[..], &["--cluster-copy"]].concat());
    assert!(said.contains("*** Importing 201 keys from DB 0\n"), "{said}");
    assert_eq!(said.matches(": OK\n").count(), 201, "{said}");
    assert_eq!(client.command(&["DBSIZE"]).unwrap(), Reply::Int(201));
    assert!(refuse(&words).contains("BUSYKEY"));
    manage(&[&words[..], &["--cluster-replace"]].concat());
    assert_eq!(client.command(&["DBSIZE"]).unwrap(), Reply::Int(0));
    expect_filled(&nodes[1], 200);
    assert_eq!(nodes.iter().map(Node::keys).sum::<i64>(), 201);
    let of_itself = refuse(&["import", &first, "--cluster-from", &nodes[1].address()]);
    assert!(of_itself.contains("[ERR] The source node should not be a cluster node.\n"), "{of_itself}");
}

#[test]
fn a_backup_has_each_primary() {
    let nodes = create(3, &[]);
    fill(&nodes[0], 100);
    let directory = tempfile::tempdir().unwrap();
    let said = manage(&["backup", &nodes[1].address(), directory.path().to_str().unwrap()]);
    assert!(said.ends_with(&format!("[OK] Backup created into: {}\n", directory.path().display())), "{said}");
    for node in &nodes {
        let port = node.server.address().port();
        let name = format!("redis-node-127.0.0.1-{port}-{}.rdb", node.id());
        let snapshot = std::fs::read(directory.path().join(name)).unwrap();
        assert!(snapshot.starts_with(b"REDIS"), "{:?}", &snapshot[..9]);
    }
    let plan = std::fs::read_to_string(directory.path().join("nodes.json")).unwrap();
    assert!(plan.contains("    \"slots\": [[0,5460]],\n    \"slots_count\": 5461,\n"), "{plan}");
    assert!(
        refuse(&["backup", &nodes[1].address(), "/nowhere/at/all"]).contains("No such file or directory")
    );
}

#[test]
fn credentials_are_the_options_and_migrate_has_them_too() {
    let nodes: Vec<Node> = (0..3).map(|_| Node::start(&[])).collect();
    for node in &nodes {
        let set = ["CONFIG", "SET", "requirepass", "cluster secret", "masterauth", "cluster secret"];
        assert!(!node.command(&set).is_error());
    }
    let addresses: Vec<String> = nodes.iter().map(Node::address).collect();
    let with = |words: &[&str]| {
        let mut command = ours();
        command.env("REDISCLI_CLUSTER_YES", "1");
        run(command, &[&["-a", "cluster secret", "--no-auth-warning", "--cluster"], words].concat(), b"")
    };
    let said = refuse(&["check", &addresses[0]]);
    assert!(said.contains("NOAUTH Authentication required."), "{said}");
    let create: Vec<&str> = ["create"].into_iter().chain(addresses.iter().map(String::as_str)).collect();
    worked(with(&create));
    until("the nodes agree", || with(&["check", &addresses[2]]).status == Some(0));
    let key = String::from_utf8(tags()[0].to_vec()).unwrap();
    until("all nodes are up", || {
        with(&["call", &addresses[0], "CLUSTER", "INFO"]).text().matches("cluster_state:ok").count() == 3
    });
    until("it takes writes", || {
        let port = nodes[0].server.address().port().to_string();
        let set = run(ours(), &["-p", &port, "-a", "cluster secret", "SET", &key, "v"], b"");
        set.text() == "OK\n"
    });
    let said = with(&["rebalance", &addresses[0], "--cluster-threshold", "0.001", "--verbose"]).text();
    assert!(said.contains("balance is"), "{said}");
    let id = |index: usize| {
        let run = with(&["call", &addresses[index], "CLUSTER", "MYID"]);
        let line = format!("{}: ", addresses[index]);
        run.text().lines().find_map(|said| said.strip_prefix(&line).map(str::to_owned)).unwrap()
    };
    let (from, to) = (id(0), id(1));
    let words = ["reshard", &addresses[2], "--cluster-from", &from, "--cluster-to", &to, "--cluster-slots"];
    let said = worked(with(&[&words[..], &["2"]].concat()));
    assert!(
        said.contains(&format!("Moving slot 0 from {} to {}: .\n", addresses[0], addresses[1])),
        "{said}"
    );
    let keys = worked(with(&["call", &addresses[0], "DBSIZE"]));
    assert!(keys.contains(&format!("{}: 1\n", addresses[1])), "{keys}");
}

/// Masks ids and other random parts, ports, and dots that show how long a step took.
fn masked(text: &str, nodes: &[Node]) -> Vec<String> {
    let mut text = text.to_owned();
    for (index, node) in nodes.iter().enumerate() {
        let id = node.id();
        text = text.replace(&id, &format!("ID-{index}")).replace(&id[..8], &format!("ID-{index}"));
        text = text.replace(&node.address(), &format!("NODE-{index}"));
    }
    let mut lines: Vec<String> =
        text.lines().map(str::to_owned).filter(|line| !line.chars().all(|letter| letter == '.')).collect();
    // Nodes list each other in any order.
    lines.sort();
    lines
}

/// Runs redis-cli's manager and ours on one cluster, and fails where they differ.
fn compare(words: &[&str], input: &str) {
    let words = [&["--cluster"], words].concat();
    let expected = run(Command::new("redis-cli"), &words, input.as_bytes());
    let got = run(ours(), &words, input.as_bytes());
    assert_eq!((got.text(), got.errors(), got.status), (expected.text(), expected.errors(), expected.status));
}

#[test]
fn what_is_said_is_what_redis_cli_says() {
    if !is_installed("redis-cli") {
        return;
    }
    compare(&["help"], "");
    compare(&["nonsense"], "");
    compare(&["check", "127.0.0.1"], "");
    compare(&["del-node", "127.0.0.1:1"], "");
    let nodes = create(6, &["--cluster-replicas", "1"]);
    fill(&nodes[0], 50);
    let (first, second) = (nodes[0].address(), nodes[1].address());
    let (id, other) = (nodes[0].id(), nodes[1].id());
    compare(&["check", &first], "");
    compare(&["check", &second, "--cluster-search-multiple-owners"], "");
    compare(&["info", &first], "");
    compare(&["fix", &first], "");
    for words in [&["DBSIZE"][..], &["CLUSTER", "SLOTS"], &["NONSENSE"], &["CONFIG", "GET", "maxmemory"]] {
        compare(&[&["call", &first], words].concat(), "");
        compare(&[&["call", &first], words, &["--cluster-only-masters"]].concat(), "");
        compare(&[&["call", &first], words, &["--cluster-only-replicas"]].concat(), "");
    }
    for options in [
        &[][..],
        &["--cluster-threshold", "0.001"],
        &["--cluster-weight", &format!("{id}=3")],
        &["--cluster-weight", &format!("{}=2.5", &id[..7]), &format!("{other}=0.3")],
        &["--cluster-weight", "nobody=1"],
    ] {
        let simulated = ["--cluster-simulate", "--verbose"];
        compare(&[&["rebalance", &first], options, &simulated].concat(), "");
    }
    for (from, to, slots) in
        [("all", id.as_str(), "7"), (&id, &id, "7"), (&id, "x", "7"), ("x", &id, "7"), (&id, &other, "5461")]
    {
        compare(
            &["reshard", &first, "--cluster-from", from, "--cluster-to", to, "--cluster-slots", slots],
            "",
        );
    }
    compare(&["del-node", &first, "nobody"], "");
    compare(&["del-node", &first, &id], "");
    compare(&["add-node", &second, &first], "");
    compare(&["add-node", &second, &first, "--cluster-slave", "--cluster-master-id", "nobody"], "");
    compare(&["create", &first, &second], "");
    compare(&["set-timeout", &first, "12"], "");
    compare(&["set-timeout", &first, "60000"], "");
    compare(&["import", &first, "--cluster-from", &second], "");
}

#[test]
fn twins_are_brought_up_alike() {
    if !is_installed("redis-cli") {
        return;
    }
    let twins: [Vec<Node>; 2] = [(); 2].map(|()| (0..6).map(|_| Node::start(&[])).collect());
    // Runs the same for both; `@0` is the first one's address, `#0` its id.
    let both = |line: &str| {
        let of = |nodes: &[Node], tool: Command| {
            let word = |word: &str| {
                let words = (0..nodes.len()).fold(word.to_owned(), |word, index| {
                    let id = format!("#{index}");
                    if word.contains(&id) { word.replace(&id, &nodes[index].id()) } else { word }
                });
                match word.strip_prefix('@') {
                    Some(index) => nodes[index.parse::<usize>().unwrap()].address(),
                    None => words,
                }
            };
            let words: Vec<String> = line.split(' ').map(word).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let run = run(tool, &[&["--cluster"], &words[..]].concat(), b"");
            (masked(&run.text(), nodes), run.errors(), run.status)
        };
        let expected = of(&twins[0], Command::new("redis-cli"));
        assert_eq!(of(&twins[1], ours()), expected, "{line}");
        assert_eq!(expected.2, Some(0), "{line}: {expected:?}");
    };
    let settle = |nodes: usize| {
        for twin in &twins {
            until("all know all", || {
                twin[..nodes].iter().all(|node| {
                    let list = node.text("CLUSTER NODES");
                    list.lines().count() == nodes && !list.contains("handshake") && !list.contains("slave -")
                })
            });
            until_agreed(&twin[..nodes]);
        }
    };
    both("create @0 @1 @2 --cluster-yes");
    settle(3);
    twins.iter().for_each(|twin| fill(&twin[0], 200));
    both("reshard @0 --cluster-from all --cluster-to #2 --cluster-slots 40 --cluster-yes");
    settle(3);
    both("add-node @3 @0");
    settle(4);
    both("rebalance @0 --cluster-use-empty-masters --cluster-weight #3=0.03");
    settle(4);
    both("add-node @4 @0 --cluster-slave --cluster-master-id #3");
    settle(5);
    both("check @1");
    both("rebalance @0 --cluster-weight #3=0");
    settle(5);
    for twin in &twins {
        expect_filled(&twin[1], 200);
    }
}
