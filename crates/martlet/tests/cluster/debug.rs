//! DEBUG's subcommands about the bus, as Valkey's suite uses them.

use super::{Node, form, until};

const DEBUG: &[&str] = &["--enable-debug-command", "yes"];

/// When the connections with a node were made, by direction: `from` or `to`.
fn made(node: &Node, other: &Node) -> Vec<(String, String)> {
    let told = node.ask(&["CLUSTER", "LINKS"]);
    let words: Vec<&str> = told.split(' ').collect();
    let of_other = words.chunks_exact(12).filter(|link| link[3] == other.id());
    let mut links: Vec<_> = of_other.map(|link| (link[1].to_owned(), link[5].to_owned())).collect();
    links.sort();
    links
}

#[test]
fn connections_are_closed_and_made_again() {
    let (node, other) = (Node::ours(DEBUG), Node::ours(DEBUG));
    form(&[&node, &other]);
    until("both connections are there", || made(&node, &other).len() == 2);
    let kill = |direction: &str, id: &str| node.ask(&["DEBUG", "CLUSTERLINK", "KILL", direction, id]);
    for (direction, changed) in [("to", [false, true]), ("from", [true, false]), ("all", [true, true])] {
        let before = made(&node, &other);
        assert_eq!(kill(direction, &other.id()), "OK");
        until("they have been made again", || {
            let now = made(&node, &other);
            now.len() == 2 && [0, 1].map(|index| now[index] != before[index]) == changed
        });
    }
    assert_eq!(kill("all", &node.id()), "-ERR Cannot free cluster link(s) to myself");
    assert_eq!(kill("all", "x"), "-ERR Unknown node x");
    assert_eq!(kill("up", &other.id()), "-ERR Unknown direction up");
    let unknown = "-ERR unknown subcommand or wrong number of arguments for 'CLUSTERLINK'. Try DEBUG HELP.";
    assert_eq!(node.ask(&["DEBUG", "CLUSTERLINK", "CLOSE", "all", &other.id()]), unknown);
    assert_eq!(node.ask(&["DEBUG", "CLUSTERLINK"]), unknown);
    assert_eq!(made(&node, &other).len(), 2);
}

#[test]
fn who_hears_nothing_finds_that_all_have_failed() {
    let nodes = [Node::ours(DEBUG), Node::ours(DEBUG), Node::ours(DEBUG)];
    let [deaf, other, third] = &nodes;
    form(&[deaf, other, third]);
    super::expect_death(&[deaf, other, third]);
    assert_eq!(
        deaf.ask(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", "x"]),
        "-ERR value is not an integer or out of range"
    );
    assert_eq!(deaf.ask(&["DEBUG", "CLOSE-CLUSTER-LINK-ON-PACKET-DROP", "1"]), "OK");
    assert_eq!(deaf.ask(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-2"]), "OK");
    let finds_failed = |node: &Node, id: &str| {
        let list = node.ask(&["CLUSTER", "NODES"]);
        list.lines().any(|line| line.starts_with(id) && line.contains("fail"))
    };
    until("it finds that others have failed", || {
        finds_failed(deaf, &other.id()) && finds_failed(deaf, &third.id())
    });
    assert_eq!(deaf.ask(&["DEBUG", "DROP-CLUSTER-PACKET-FILTER", "-1"]), "OK");
    until("all is well again", || {
        nodes.iter().all(|node| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
            && !finds_failed(deaf, &other.id())
            && !finds_failed(deaf, &third.id())
    });
}
