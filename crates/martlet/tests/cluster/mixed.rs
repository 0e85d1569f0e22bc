//! Ours and real nodes in one cluster, each as primary and as replica of the other.

use super::{
    Node, attach, expect_death, form, has_peer, take_over, told, until, until_known, until_settled, until_up,
};

#[test]
fn each_is_the_others_replica_and_takes_over() {
    if !has_peer() {
        return;
    }
    let (ours, real, third) = (Node::ours(&[]), Node::real(), Node::ours(&[]));
    let (our_replica, real_replica) = (Node::ours(&[]), Node::real());
    // 5061, the slot of `bar`, is the first's; 5798, of `name`, is the second's.
    form(&[&ours, &real, &third]);
    assert_eq!((ours.ask(&["SET", "bar", "1"]), real.ask(&["SET", "name", "2"])), ("OK".into(), "OK".into()));
    ours.meet(&our_replica);
    ours.meet(&real_replica);
    attach(&our_replica, &real);
    attach(&real_replica, &ours);
    let mut subscriber = our_replica.connect();
    assert_eq!(told(&subscriber.command(&["SUBSCRIBE", "news"]).unwrap()), "subscribe news 1");
    subscriber.limit_steps(super::LOOK * 10).unwrap();
    until("a message arrives", || {
        real_replica.ask(&["PUBLISH", "news", "hello"]);
        subscriber.read_reply().is_ok()
    });
    // Agreed with a primary of the other kind.
    for (replica, primary, key) in [(&our_replica, &real, "name"), (&real_replica, &ours, "bar")] {
        let value = primary.ask(&["GET", key]);
        take_over(replica, &[&ours, &real, &third, &our_replica, &real_replica]);
        until("the primary follows", || primary.ask(&["ROLE"]).starts_with("slave"));
        until("the key is served", || replica.ask(&["GET", key]) == value);
        until("the link is up", || primary.ask(&["INFO", "replication"]).contains("master_link_status:up"));
    }
    // By votes of both kinds, when the primary dies.
    until_known(&real, &[&ours, &real_replica, &third]);
    expect_death(&[&ours, &real, &third, &our_replica, &real_replica]);
    drop(our_replica);
    until("the real one is a primary again", || real.ask(&["ROLE"]).starts_with("master"));
    until("it serves", || real.ask(&["GET", "name"]) == "2");
    until_known(&ours, &[&real, &third]);
    until_settled(&[&ours, &real, &third, &real_replica]);
    drop(real_replica);
    until("ours is a primary again", || ours.ask(&["ROLE"]).starts_with("master"));
    until("it serves", || ours.ask(&["GET", "bar"]) == "1");
    until_up(&[&ours, &real, &third]);
}
