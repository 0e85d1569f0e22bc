//! Redirections of clients: a key's owner, slots under way, replicas, a cluster that is down.

use super::{Node, attach, expect_death, form, take_over, told, until, until_known, until_up};

/// The slot of `foo` is 12182, of `bar` 5061: of three nodes with equal parts, the third has the first and
/// the first has the second.
const FOO_SLOT: &str = "12182";

#[test]
fn keys_are_served_by_their_slots_owner() {
    let nodes = [Node::ours(&[]), Node::ours(&[]), Node::ours(&[])];
    let [first, second, third] = &nodes;
    assert_eq!(first.ask(&["SET", "bar", "1"]), "-CLUSTERDOWN Hash slot not served");
    form(&[first, second, third]);
    let moved = format!("-MOVED {FOO_SLOT} {}", third.address());
    assert_eq!(first.ask(&["SET", "foo", "1"]), moved);
    assert_eq!(third.ask(&["SET", "foo", "1"]), "OK");
    assert_eq!(
        first.ask(&["MSET", "foo", "1", "bar", "2"]),
        "-CROSSSLOT Keys in request don't hash to the same slot"
    );
    assert_eq!(third.ask(&["MSET", "{foo}a", "1", "{foo}b", "2"]), "OK");
    assert_eq!(third.ask(&["CLUSTER", "COUNTKEYSINSLOT", FOO_SLOT]), "3");
    assert_eq!(third.ask(&["CLUSTER", "GETKEYSINSLOT", FOO_SLOT, "10"]).split(' ').count(), 3);
    assert_eq!(third.ask(&["SELECT", "1"]), "-ERR SELECT is not allowed in cluster mode");
    assert_eq!(third.ask(&["REPLICAOF", "no", "one"]), "-ERR REPLICAOF not allowed in cluster mode.");
    let refusal = "-ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.";
    assert_eq!(third.ask(&["FAILOVER", "ABORT"]), refusal);
    // In a transaction, when it is queued; and nothing of it is run.
    let mut client = first.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    assert_eq!(ask(&["MULTI"]), "OK");
    assert_eq!(ask(&["SET", "bar", "1"]), "QUEUED");
    assert_eq!(ask(&["SET", "foo", "1"]), moved);
    assert_eq!(ask(&["EXEC"]), "-EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(ask(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "foo"]), moved);
    let away = ask(&["EVAL", "return redis.call('GET', 'foo')", "0"]);
    assert!(away.starts_with("-ERR Script attempted to access a non local key in a cluster node"), "{away}");
    let crossing =
        ask(&["EVAL", "#!lua\nredis.call('GET', 'a') return redis.call('GET', 'bar')", "1", "bar"]);
    assert!(crossing.contains("Script attempted to access"), "{crossing}");
    // Messages reach subscribers of every node.
    let mut subscriber = second.connect();
    assert_eq!(told(&subscriber.command(&["SUBSCRIBE", "news"]).unwrap()), "subscribe news 1");
    first.ask(&["PUBLISH", "news", "hello"]);
    assert_eq!(told(&subscriber.read_reply().unwrap()), "message news hello");
}

#[test]
fn a_slot_under_way_is_served_by_who_has_the_key() {
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    form(&[&from, &to]);
    // The slot of `bar` is the first node's.
    assert_eq!(from.ask(&["MSET", "{bar}1", "a", "{bar}2", "b"]), "OK");
    let slot = from.ask(&["CLUSTER", "KEYSLOT", "bar"]);
    assert_eq!(to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.id()]), "OK");
    assert_eq!(from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.id()]), "OK");
    let (host, port) = ("127.0.0.1", to.address().port().to_string());
    assert_eq!(from.ask(&["MIGRATE", host, &port, "", "0", "5000", "KEYS", "{bar}1"]), "OK");
    let asked = format!("-ASK {slot} {}", to.address());
    assert_eq!(from.ask(&["GET", "{bar}2"]), "b");
    assert_eq!(from.ask(&["GET", "{bar}1"]), asked);
    assert_eq!(
        from.ask(&["MGET", "{bar}1", "{bar}2"]),
        "-TRYAGAIN Multiple keys request during rehashing of slot"
    );
    assert_eq!(to.ask(&["GET", "{bar}1"]), format!("-MOVED {slot} {}", from.address()));
    let mut client = to.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    assert_eq!((ask(&["ASKING"]), ask(&["GET", "{bar}1"])), ("OK".into(), "a".into()));
    assert_eq!(ask(&["GET", "{bar}1"]), format!("-MOVED {slot} {}", from.address()));
    assert_eq!(ask(&["ASKING"]), "OK");
    assert_eq!(
        ask(&["MGET", "{bar}1", "{bar}2"]),
        "-TRYAGAIN Multiple keys request during rehashing of slot"
    );
    // A client that waits for a key is redirected when the slot has left.
    let mut waiting = from.connect();
    waiting.send_raw(b"*3\r\n$5\r\nBLPOP\r\n$6\r\n{bar}2\r\n$1\r\n0\r\n").unwrap();
    assert!(told(&waiting.read_reply().unwrap()).starts_with("-WRONGTYPE"));
    assert_eq!(from.ask(&["MIGRATE", host, &port, "", "0", "5000", "KEYS", "{bar}2"]), "OK");
    for node in [&to, &from] {
        assert_eq!(node.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to.id()]), "OK");
    }
    assert_eq!(to.ask(&["MGET", "{bar}1", "{bar}2"]), "a b");
    assert_eq!(from.ask(&["GET", "{bar}1"]), format!("-MOVED {slot} {}", to.address()));
}

#[test]
fn who_waits_for_a_key_is_sent_on_with_its_slot() {
    let (from, to) = (Node::ours(&[]), Node::ours(&[]));
    form(&[&from, &to]);
    let slot = from.ask(&["CLUSTER", "KEYSLOT", "bar"]);
    let mut waiting = from.connect();
    waiting.send_raw(b"*3\r\n$5\r\nBLPOP\r\n$3\r\nbar\r\n$1\r\n0\r\n").unwrap();
    until("it waits", || from.ask(&["INFO", "clients"]).contains("blocked_clients:1"));
    let mut subscriber = from.connect();
    assert_eq!(told(&subscriber.command(&["SSUBSCRIBE", "bar"]).unwrap()), "ssubscribe bar 1");
    assert_eq!(from.ask(&["SPUBLISH", "bar", "hello"]), "1");
    assert_eq!(told(&subscriber.read_reply().unwrap()), "smessage bar hello");
    assert_eq!(from.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to.id()]), "OK");
    let moved = format!("-MOVED {slot} {}", to.address());
    assert_eq!(told(&waiting.read_reply().unwrap()), moved);
    assert_eq!(told(&subscriber.read_reply().unwrap()), "sunsubscribe bar 0");
    assert_eq!(from.ask(&["SPUBLISH", "bar", "hello"]), moved);
}

#[test]
fn a_replica_answers_readers_and_takes_over() {
    let nodes = [Node::ours(&[]), Node::ours(&[]), Node::ours(&[])];
    let [primary, other, third] = &nodes;
    let replica = Node::ours(&[]);
    form(&[primary, other, third]);
    assert_eq!(primary.ask(&["SET", "bar", "1"]), "OK");
    primary.meet(&replica);
    attach(&replica, primary);
    let moved = format!("-MOVED 5061 {}", primary.address());
    assert_eq!(replica.ask(&["GET", "bar"]), moved);
    let mut reader = replica.connect();
    let mut ask = |words: &[&str]| told(&reader.command(words).unwrap());
    assert_eq!(ask(&["READONLY"]), "OK");
    assert_eq!((ask(&["GET", "bar"]), ask(&["SET", "bar", "2"])), ("1".into(), moved.clone()));
    // A script is sent on that may write and does not promise otherwise.
    for (flags, answer) in [("", moved.as_str()), (" flags=no-writes", "1")] {
        let script = format!("#!lua{flags}\nreturn redis.call('GET', KEYS[1])");
        assert_eq!(ask(&["EVAL", &script, "1", "bar"]), answer);
    }
    assert_eq!((ask(&["READWRITE"]), ask(&["GET", "bar"])), ("OK".into(), moved));
    // With the primary's help, without loss.
    take_over(&replica, &[primary, other, third, &replica]);
    until("the primary is a replica", || primary.ask(&["ROLE"]).starts_with("slave"));
    until("the replica serves", || replica.ask(&["SET", "bar", "3"]) == "OK");
    until("the link is up", || primary.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    until_known(primary, &[&replica, other, third]);
    let mut writer = replica.connect();
    assert_eq!(told(&writer.command(&["SET", "bar", "4"]).unwrap()), "OK");
    assert_eq!(told(&writer.command(&["WAIT", "1", "60000"]).unwrap()), "1");
    // By votes, when it dies.
    let id = replica.id();
    expect_death(&[primary, other, third, &replica]);
    drop(replica);
    until("the old primary takes over", || primary.ask(&["ROLE"]).starts_with("master"));
    until("it serves", || primary.ask(&["GET", "bar"]) == "4");
    let line = primary.ask(&["CLUSTER", "NODES"]);
    assert!(line.lines().any(|line| line.starts_with(&id) && line.contains("fail")), "{line}");
    until_up(&[primary, other, third]);
}

#[test]
fn clients_are_told_the_port_that_is_theirs() {
    let nodes = [Node::ours(&["--cluster-announce-client-port", "6400"]), Node::ours(&[])];
    let [first, second] = &nodes;
    form(&[first, second]);
    assert_eq!(second.ask(&["CONFIG", "SET", "cluster-announce-client-port", "6401"]), "OK");
    until("all tell the ports for clients", || {
        nodes.iter().all(|node| {
            let list = node.ask(&["CLUSTER", "NODES"]);
            list.contains("127.0.0.1:6400@") && list.contains("127.0.0.1:6401@")
        })
    });
    for node in &nodes {
        assert!(node.ask(&["CLUSTER", "SLOTS"]).contains("0 8191 127.0.0.1 6400 "));
        assert!(node.ask(&["CLUSTER", "SHARDS"]).contains("port 6401 "));
    }
    assert_eq!(first.ask(&["GET", "foo"]), format!("-MOVED {FOO_SLOT} 127.0.0.1:6401"));
    // Nodes go by the port that is announced to them.
    let replica = Node::ours(&[]);
    first.meet(&replica);
    attach(&replica, first);
}

#[test]
fn clients_are_told_in_which_zone_a_node_is() {
    let nodes = [Node::ours(&["--availability-zone", "zone-a"]), Node::ours(&[])];
    form(&[&nodes[0], &nodes[1]]);
    let refusal = nodes[1].ask(&["CONFIG", "SET", "availability-zone", "zone,b"]);
    assert!(refusal.ends_with("Availability zone contained invalid character"), "{refusal}");
    assert!(!nodes[1].ask(&["HELLO"]).contains("zone"));
    assert_eq!(nodes[1].ask(&["CONFIG", "SET", "availability-zone", "zone-b"]), "OK");
    for (node, zone) in nodes.iter().zip(["zone-a", "zone-b"]) {
        assert!(node.ask(&["HELLO"]).ends_with(&format!("availability_zone {zone}")));
        assert!(node.ask(&["INFO", "server"]).contains(&format!("availability_zone:{zone}\r\n")));
        for view in ["SLOTS", "SHARDS"] {
            until("both zones are told", || {
                let told = node.ask(&["CLUSTER", view]);
                ["zone-a", "zone-b"].iter().all(|zone| told.contains(&format!("availability-zone {zone}")))
            });
        }
    }
}

#[test]
fn sort_reads_keys_of_one_slot_only() {
    let node = Node::ours(&[]);
    form(&[&node]);
    let mut client = node.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    assert_eq!(ask(&["RPUSH", "{a}list", "1", "2"]), "2");
    assert_eq!(ask(&["MSET", "{a}weight1", "2", "{a}weight2", "1"]), "OK");
    assert_eq!(ask(&["SORT", "{a}list", "BY", "{a}weight*", "GET", "#", "GET", "{a}weight*"]), "2 1 1 2");
    assert_eq!(ask(&["SORT", "{a}list", "BY", "nosort"]), "1 2");
    let denied =
        "option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.";
    assert_eq!(ask(&["SORT", "{a}list", "BY", "weight*"]), format!("-ERR BY {denied}"));
    assert_eq!(ask(&["SORT", "{a}list", "GET", "{b}weight*"]), format!("-ERR GET {denied}"));
}

#[test]
fn a_transaction_may_look_at_slots() {
    let node = Node::ours(&[]);
    form(&[&node]);
    let mut client = node.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    for words in [
        &["MULTI"][..],
        &["SET", "foo", "1"],
        &["CLUSTER", "COUNTKEYSINSLOT", FOO_SLOT],
        &["CLUSTER", "GETKEYSINSLOT", FOO_SLOT, "5"],
        &["CLUSTER", "SLOT-STATS", "SLOTSRANGE", FOO_SLOT, FOO_SLOT],
        &["CLUSTER", "FLUSHSLOT", FOO_SLOT],
        &["CLUSTER", "COUNTKEYSINSLOT", FOO_SLOT],
    ] {
        ask(words);
    }
    assert_eq!(ask(&["EXEC"]), format!("OK 1 foo {FOO_SLOT} key-count 1 OK 0"));
    // Every shard has been given back.
    assert_eq!(node.ask(&["SET", "foo", "2"]), "OK");
}

#[test]
fn a_node_may_have_several_databases() {
    let nodes = [Node::ours(&["--cluster-databases", "4"]), Node::ours(&["--cluster-databases", "4"])];
    let [first, second] = &nodes;
    form(&[first, second]);
    let mut client = second.connect();
    let mut ask = |words: &[&str]| told(&client.command(words).unwrap());
    assert_eq!((ask(&["SET", "foo", "1"]), ask(&["MOVE", "foo", "1"])), ("OK".into(), "1".into()));
    assert_eq!(ask(&["CLUSTER", "COUNTKEYSINSLOT", FOO_SLOT]), "0");
    assert_eq!(
        (ask(&["SELECT", "4"]), ask(&["SELECT", "1"])),
        ("-ERR DB index is out of range".into(), "OK".into())
    );
    assert_eq!((ask(&["GET", "foo"]), ask(&["COPY", "foo", "foo", "DB", "2"])), ("1".into(), "1".into()));
    assert_eq!(ask(&["CLUSTER", "GETKEYSINSLOT", FOO_SLOT, "5"]), "foo");
    assert_eq!(ask(&["SWAPDB", "0", "1"]), "-ERR SWAPDB is not allowed in cluster mode");
    let full = "-ERR DB must be empty to perform CLUSTER FLUSHSLOTS.";
    assert_eq!(second.ask(&["CLUSTER", "FLUSHSLOTS"]), full);
    // A slot under way is looked for in the client's database; its keys go there from each.
    assert_eq!(first.ask(&["CLUSTER", "SETSLOT", FOO_SLOT, "IMPORTING", &second.id()]), "OK");
    assert_eq!(ask(&["CLUSTER", "SETSLOT", FOO_SLOT, "MIGRATING", &first.id()]), "OK");
    let port = first.address().port().to_string();
    assert_eq!(ask(&["GET", "foo"]), "1");
    assert_eq!(ask(&["MIGRATE", "127.0.0.1", &port, "foo", "1", "60000"]), "OK");
    assert_eq!(ask(&["GET", "foo"]), format!("-ASK {FOO_SLOT} {}", first.address()));
    assert_eq!((ask(&["SELECT", "2"]), ask(&["GET", "foo"])), ("OK".into(), "1".into()));
    assert_eq!(ask(&["MIGRATE", "127.0.0.1", &port, "foo", "2", "60000"]), "OK");
    for node in [first, second] {
        assert_eq!(node.ask(&["CLUSTER", "SETSLOT", FOO_SLOT, "NODE", &first.id()]), "OK");
    }
    assert!(first.ask(&["INFO", "keyspace"]).contains("db1:keys=1") && first.ask(&["DBSIZE"]) == "0");
    assert_eq!(first.ask(&["CLUSTER", "FLUSHSLOT", FOO_SLOT, "SYNC"]), "OK");
    assert!(!first.ask(&["INFO", "keyspace"]).contains("keys="));
    // With one database, which is the rule, there is no way to another.
    let single = Node::ours(&[]);
    form(&[&single]);
    assert_eq!(single.ask(&["MOVE", "foo", "1"]), "-ERR MOVE is not allowed in cluster mode");
    assert_eq!(single.ask(&["SWAPDB", "0", "0"]), "-ERR SWAPDB is not allowed in cluster mode");
}
