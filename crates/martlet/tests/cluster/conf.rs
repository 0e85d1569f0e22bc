//! A node's file of the cluster, `nodes.conf`.

use super::{Node, OURS, form, introduce, until};

#[test]
fn a_node_is_the_same_after_a_restart_and_no_two_have_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.conf");
    let file = file.to_str().unwrap();
    let (first, second) = (Node::ours(&["--cluster-config-file", file]), Node::ours(&[]));
    form(&[&first, &second]);
    let id = first.id();
    let is_refused = || {
        let again = std::process::Command::new(OURS)
            .args(["server", "--port", "0", "--unixsocket", folder.path().join("s").to_str().unwrap()])
            .args(["--cluster-enabled", "yes", "--cluster-config-file", file, "--cluster-port"])
            .arg(martlet_testkit::server::ReservedPort::take().unwrap().number().to_string())
            .output()
            .unwrap();
        assert!(!again.status.success());
        assert!(String::from_utf8_lossy(&again.stdout).contains("is already used by a different"));
    };
    is_refused();
    // What a node of Redis locks is the file itself, which has been replaced since the start.
    let as_redis = || std::fs::File::options().append(true).open(file).unwrap();
    until("the file is in its place, locked", || as_redis().try_lock().is_err());
    drop(first);
    let redis = as_redis();
    redis.lock().unwrap();
    is_refused();
    // Blocks whose content did not reach the disk.
    std::io::Write::write_all(&mut &redis, &[0; 4096]).unwrap();
    drop(redis);
    let first = Node::ours(&["--cluster-config-file", file]);
    assert_eq!(first.id(), id);
    until("the restarted node serves", || first.ask(&["SET", "bar", "1"]) == "OK");
    let third = Node::ours(&[]);
    introduce(&[&third]);
    assert_eq!(third.ask(&["CLUSTER", "RESET", "HARD"]), "OK");
}

#[test]
fn the_bus_comes_from_the_address_of_bind_source_addr() {
    let nodes = ["127.0.0.21", "127.0.0.22"].map(|host| {
        // Nodes learn each other's address from where a connection comes.
        Node::ours(&["--bind", "127.0.0.1", host, "--bind-source-addr", host])
    });
    introduce(&[&nodes[0], &nodes[1]]);
    let other = nodes[1].ask(&["CLUSTER", "NODES"]);
    let line = other.lines().find(|line| line.starts_with(&nodes[0].id())).unwrap();
    assert!(line.contains(" 127.0.0.21:"), "{line}");
    // One that is no address of this machine does no harm, as in Redis.
    let nodes = [(); 2].map(|()| Node::ours(&["--bind-source-addr", "192.0.2.1"]));
    introduce(&[&nodes[0], &nodes[1]]);
}

#[test]
fn what_was_answered_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.conf");
    let node = Node::ours(&["--cluster-config-file", file.to_str().unwrap()]);
    for slot in ["5", "7", "9", "11"] {
        assert_eq!(node.ask(&["CLUSTER", "ADDSLOTS", slot]), "OK");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.lines().any(|line| line.contains("myself") && line.ends_with(slot)), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_written_ends_a_node_that_may_not_go_on_without() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.conf");
    let mut node = Node::ours(&[
        "--cluster-config-file",
        file.to_str().unwrap(),
        "--cluster-config-save-behavior",
        "best-effort",
    ]);
    // Where a new file would be written first.
    let obstacle = folder.path().join(format!("nodes.conf.tmp-{}", node.server.pid()));
    let own_line = || {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().find(|line| line.contains("myself")).unwrap().to_owned()
    };
    // A new node's file is locked before it is first written.
    until("the node is in its file", || std::fs::read_to_string(&file).unwrap().contains("myself"));
    // The node may be writing one of its own accord.
    let obstruct = || until("no new file is there", || std::fs::create_dir(&obstacle).is_ok());
    obstruct();
    assert_eq!(node.ask(&["CLUSTER", "ADDSLOTS", "5"]), "OK");
    assert!(!own_line().ends_with(" 5"));
    assert!(node.server.logged("Could not update cluster config file: ", 1) > 0);
    std::fs::remove_dir(&obstacle).unwrap();
    assert_eq!(node.ask(&["CLUSTER", "ADDSLOTS", "7"]), "OK");
    assert!(own_line().ends_with(" 5 7"));
    assert_eq!(node.ask(&["CONFIG", "SET", "cluster-config-save-behavior", "sync"]), "OK");
    obstruct();
    assert!(node.connect().command(&["CLUSTER", "ADDSLOTS", "9"]).is_err());
    until("the node ends", || node.server.has_exited());
    assert!(own_line().ends_with(" 5 7"));
    let (status, log) = node.server.end().unwrap();
    assert_eq!(status.code(), Some(1), "supervisors start it again");
    assert!(log.contains("Fatal: can't update cluster config file: "));
}
