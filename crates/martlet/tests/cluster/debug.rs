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
fn links_are_listed_by_node_with_the_time_that_they_were_made() {
    let nodes: Vec<Node> = (0..4).map(|_| Node::ours(&[])).collect();
    form(&nodes.iter().collect::<Vec<_>>());
    let listed = || {
        let told = nodes[0].ask(&["CLUSTER", "LINKS"]);
        let words: Vec<String> = told.split(' ').map(str::to_owned).collect();
        words.chunks_exact(12).map(|link| [1, 3, 5].map(|at| link[at].clone())).collect::<Vec<_>>()
    };
    until("all connections are there", || listed().len() == 6);
    let links = listed();
    for of_node in links.chunks_exact(2) {
        let [to, from] = of_node else { unreachable!("of two each") };
        assert_eq!((to[0].as_str(), from[0].as_str(), &to[1]), ("to", "from", &from[1]), "{links:?}");
    }
    // Over the milliseconds in which two clocks' last digits change apart from each other.
    for _ in 0..200 {
        assert_eq!(listed(), links);
    }
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
