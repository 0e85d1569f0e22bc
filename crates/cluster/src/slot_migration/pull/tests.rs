//! Both ends of a task, with their messages carried by hand, and a run of chance.

use super::super::tests::{LIMITS, at, done, node};
use super::*;
use crate::conf::Conf;
use crate::machine::Settings;
use martlet_base::random::Random;

const SOURCE: u8 = b'a';
const TARGET: u8 = b'b';

/// A node of a cluster in which the source has the lower half of the slots but for `lost`, which the target
/// has.
fn cluster(myself: u8, lost: &str) -> Cluster {
    let line = |byte: u8, port: u16, slots: &str| {
        let flags = if byte == myself { "myself,master" } else { "master" };
        format!("{} 127.0.0.1:{port}@1{port} {flags} - 0 0 {byte} connected {slots}\n", node(byte))
    };
    let (mine, other) = match lost {
        "" => ("0-8191", "8192-16383"),
        _ => ("101-8191", "0-100 8192-16383"),
    };
    let text =
        line(SOURCE, 7001, mine) + &line(TARGET, 7002, other) + "vars currentEpoch 200 lastVoteEpoch 0\n";
    let conf = Conf::parse(&text).unwrap();
    Cluster::from_conf(Settings::default(), Random::seeded(1), at(0), &conf)
}

fn owner_is(byte: u8) -> impl Fn(u16) -> Option<NodeId> {
    move |_| Some(node(byte))
}

struct Pair {
    source: SlotMigrations,
    target: SlotMigrations,
    id: NodeId,
    export: JobId,
    import: JobId,
}

impl Pair {
    fn machines(limits: super::super::Limits) -> [SlotMigrations; 2] {
        [1, 2].map(|seed| SlotMigrations::new(Random::seeded(seed), limits, true))
    }

    /// The target has asked, and both connections are there.
    fn new() -> Pair {
        let [mut source, mut target] = Pair::machines(LIMITS);
        let id = target.import_slots(at(0), &cluster(TARGET, ""), vec![(0, 100)]).unwrap();
        let [Action::Hide, Action::Mark(import), Action::Pull(_)] = done(target.take_actions())[..] else {
            panic!("it begins by hiding the slots")
        };
        let asked = source.give_slots(at(0), &cluster(SOURCE, ""), id, node(TARGET), vec![(0, 100)]);
        let export = asked.unwrap();
        assert!(done(source.take_actions()).is_empty());
        let mut pair = Pair { source, target, id, export, import };
        assert_eq!(pair.steps(), (Step::WaitRdbChannel, Step::Connecting));
        assert_eq!(pair.source.open_channel(at(0), id), Ok(export));
        assert_eq!(done(pair.source.take_actions()), [Action::Snapshot(export)]);
        pair
    }

    fn tasks(&self) -> (&Task, &Task) {
        (self.source.tasks().next().unwrap(), self.target.tasks().next().unwrap())
    }

    fn steps(&self) -> (Step, Step) {
        let (source, target) = self.tasks();
        (source.step, target.step)
    }

    fn snapshot(&mut self) {
        self.source.snapshot_begun(at(1), self.export);
        self.target.snapshot_comes(at(1), self.import);
        assert_eq!(self.steps(), (Step::SendBulkAndStream, Step::AccumulateBuffer));
        self.source.snapshot_sent(at(2), self.export);
        self.target.hear(at(2), self.import, Message::SnapshotEof);
        assert_eq!(self.steps(), (Step::SendStream, Step::StreamingBuffer));
    }

    fn pause(&mut self) {
        self.target.reached(self.import, Step::WaitStreamEof);
        self.source.target_acked(at(3), self.export, true);
        assert_eq!(done(self.source.take_actions()), [Action::TryPause(self.export)]);
        self.source.paused(at(3), self.export, true);
        let expected = [Action::Send(self.export, Message::StreamEof)];
        assert_eq!(done(self.source.take_actions()), expected);
        assert_eq!(self.steps().0, Step::Handoff);
    }

    fn consent(&mut self) {
        assert!(self.source.consents(at(4), self.export));
        self.target.hear(at(4), self.import, Message::StreamEof);
        assert_eq!(done(self.target.take_actions()), [Action::TakeSlots(self.import)]);
        assert_eq!(self.steps(), (Step::StreamEof, Step::Takeover));
    }
}

#[test]
fn a_task_goes_from_end_to_end() {
    let mut pair = Pair::new();
    pair.snapshot();
    pair.pause();
    pair.consent();
    pair.target.taken(at(5), pair.import);
    let ended = Action::TellEnd { name: pair.id, is_success: true, message: None };
    assert_eq!(done(pair.target.take_actions()), [Action::Close(pair.import), Action::Hide, ended]);
    pair.source.lost(at(5), pair.export);
    pair.source.follow_table(at(6), node(SOURCE), true, owner_is(TARGET));
    assert_eq!(done(pair.source.take_actions()), [Action::Resume, Action::Close(pair.export)]);
    assert_eq!(pair.steps(), (Step::Completed, Step::Completed));
    let (source, target) = pair.tasks();
    assert_eq!((source.write_pause_ms(), target.write_pause_ms()), (3, 0));
    assert_eq!((source.ended_ms, target.ended_ms, target.error.as_str()), (6, 5, ""));
    assert!(!pair.source.is_active() && !pair.target.is_active() && pair.target.importing().is_empty());
    pair.source.tick(at(7), |_| None);
    assert_eq!(pair.source.jobs().count(), 0, "attempts that are over are in no list of Valkey's");
}

/// A task that is cancelled after the consent, before its slots are taken, takes none.
#[test]
fn a_cancelled_task_takes_no_slots() {
    let mut pair = Pair::new();
    pair.snapshot();
    pair.pause();
    pair.consent();
    assert!(pair.target.slots_to_take(pair.import).is_some_and(|slots| !slots.is_empty()));
    assert_eq!(pair.target.cancel_tasks(at(5), None), 1);
    assert_eq!(pair.target.slots_to_take(pair.import), None);
}

/// Whatever is cut off before the consent: the target has no key, writes go on, and there is another attempt.
#[test]
fn a_lost_link_leads_to_another_attempt_of_the_same_task() {
    for steps in 0..3 {
        let mut pair = Pair::new();
        if steps > 0 {
            pair.snapshot();
        }
        if steps > 1 {
            pair.pause();
        }
        pair.source.lost(at(9), pair.export);
        pair.target.fail(at(9), pair.import, "Main channel - Connection is closed");
        assert_eq!(pair.steps(), (Step::Failed, Step::Failed), "after {steps} steps");
        assert!(!pair.source.holds_writes() && !pair.source.is_active() && pair.target.is_active());
        let words = ["state: ", "rdb_channel_state: "];
        assert!(words.iter().all(|word| pair.tasks().1.error.contains(word)), "{}", pair.tasks().1.error);
        assert!(done(pair.target.take_actions()).contains(&Action::CleanUp(pair.import)));
        pair.target.tick(at(5_000), |_| None);
        let early = done(pair.target.take_actions());
        assert!(!early.contains(&Action::Retry), "keys are still to be deleted");
        pair.target.cleaned(at(5_000), pair.import);
        pair.target.tick(at(5_100), |_| None);
        assert!(done(pair.target.take_actions()).contains(&Action::Retry));
        pair.target.retry(at(5_100), &cluster(TARGET, ""));
        let actions = done(pair.target.take_actions());
        assert!(matches!(actions[..], [Action::Hide, Action::Mark(_), Action::Pull(_)]), "{actions:?}");
        let asked =
            pair.source.give_slots(at(5_100), &cluster(SOURCE, ""), pair.id, node(TARGET), vec![(0, 100)]);
        assert!(asked.is_ok_and(|job| job != pair.export));
        let (source, target) = pair.tasks();
        assert_eq!((source.retries, target.retries, source.id, target.id), (1, 1, pair.id, pair.id));
        assert_eq!(pair.source.tasks().count() + pair.target.tasks().count(), 2);
    }
}

#[test]
fn an_attempt_is_not_repeated_once_the_slots_are_here_or_owned_by_several() {
    let mut pair = Pair::new();
    pair.target.fail(at(1), pair.import, "why");
    pair.target.cleaned(at(1), pair.import);
    pair.target.retry(at(2_000), &cluster(TARGET, "0-100"));
    let task = pair.target.tasks().next().unwrap();
    assert_eq!(task.step, Step::Canceled);
    assert!(task.error.starts_with("Cancelled due to slots owned by myself now"), "{}", task.error);
    assert!(!pair.target.is_active());
}

#[test]
fn consent_cannot_be_taken_back_and_is_not_given_late() {
    let mut pair = Pair::new();
    pair.snapshot();
    pair.pause();
    assert!(!pair.source.consents(at(10_003), pair.export), "the pause is over");
    pair.source.tick(at(10_004), |_| None);
    assert!(done(pair.source.take_actions()).contains(&Action::Resume));
    assert!(pair.tasks().0.error.starts_with("Server paused timeout (state: handoff"));
    let mut pair = Pair::new();
    pair.snapshot();
    pair.pause();
    pair.consent();
    assert_eq!(pair.source.cancel_tasks(at(5), None), 0);
    pair.source.flushed(at(5));
    pair.source.lost(at(5), pair.export);
    assert!(pair.source.holds_writes());
    pair.source.tick(at(10_004), |_| None);
    assert!(!pair.source.holds_writes());
    assert!(pair.tasks().0.error.starts_with("Server paused timeout (state: stream-eof"));
}

#[test]
fn what_is_cancelled_is_over_at_both_ends() {
    let mut pair = Pair::new();
    pair.snapshot();
    assert_eq!(pair.target.cancel_tasks(at(3), Some(b"")), 0);
    assert_eq!(pair.target.cancel_tasks(at(3), Some(pair.id.as_bytes())), 1);
    assert_eq!(pair.target.cancel_tasks(at(3), None), 0);
    assert_eq!(pair.source.cancel_tasks(at(3), None), 1);
    assert_eq!(pair.steps(), (Step::Canceled, Step::Canceled));
    let actions = done(pair.target.take_actions());
    assert!(actions.contains(&Action::Close(pair.import)) && actions.contains(&Action::CleanUp(pair.import)));
    pair.target.cleaned(at(3), pair.import);
    pair.target.tick(at(5_000), |_| None);
    assert!(!done(pair.target.take_actions()).contains(&Action::Retry));
    let error = &pair.tasks().1.error;
    assert!(error.starts_with("Cancelled due to user request (state: streaming-buffer"), "{error}");
}

#[test]
fn one_task_at_a_time() {
    let mut pair = Pair::new();
    let refused = pair.target.import_slots(at(1), &cluster(TARGET, ""), vec![(200, 300)]);
    assert_eq!(refused.unwrap_err().0, "another ASM task is already in progress");
    let other = node(b'c');
    let refused = pair.source.give_slots(at(1), &cluster(SOURCE, ""), other, node(TARGET), vec![(200, 300)]);
    assert_eq!(refused.unwrap_err().0, "Another ASM task is already in progress");
    assert_eq!(pair.source.open_channel(at(1), other).unwrap_err().0, UNKNOWN_CHANNEL);
    // One that has failed makes room.
    pair.source.lost(at(2), pair.export);
    pair.target.fail(at(2), pair.import, "why");
    pair.target.cleaned(at(2), pair.import);
    assert!(pair.target.import_slots(at(3), &cluster(TARGET, ""), vec![(200, 300)]).is_ok());
    let asked = pair.source.give_slots(at(3), &cluster(SOURCE, ""), other, node(TARGET), vec![(200, 300)]);
    assert!(asked.is_ok());
    for machine in [&pair.source, &pair.target] {
        let tasks: Vec<&Task> = machine.tasks().collect();
        assert_eq!((tasks.len(), tasks[1].step), (2, Step::Canceled));
    }
}

#[test]
fn slots_that_may_not_move_are_refused() {
    let [_, mut target] = Pair::machines(LIMITS);
    let mut refuse = |ranges| target.import_slots(at(0), &cluster(TARGET, ""), ranges).unwrap_err().0;
    assert_eq!(refuse(vec![(9000, 9000)]), "this node is already the owner of the slot range");
    assert_eq!(refuse(vec![(8000, 9000)]), "slots belong to different source nodes");
    let [mut source, _] = Pair::machines(LIMITS);
    let mut refuse = |ranges, of| {
        source.give_slots(at(0), &cluster(SOURCE, ""), node(b'e'), node(of), ranges).unwrap_err().0
    };
    assert_eq!(refuse(vec![(9000, 9000)], TARGET), "This node is not the owner of the slots");
    assert!(refuse(vec![(0, 0)], b'd').ends_with("is not a master"));
    assert!(!target.is_active() && !source.is_active());
}

#[test]
fn a_target_that_falls_behind_is_given_up() {
    let mut pair = Pair::new();
    pair.snapshot();
    pair.source.target_acked(at(10), pair.export, true);
    pair.source.paused(at(10), pair.export, false);
    pair.source.tick(at(60_009), |_| None);
    pair.source.target_lives(at(60_009), pair.export);
    assert_eq!(pair.steps().0, Step::SendStream);
    pair.source.tick(at(60_011), |_| None);
    assert!(pair.tasks().0.error.starts_with("Sync buffer drain timeout (state: send-stream"));
}

#[test]
fn the_table_and_the_role_decide() {
    // Slots that go elsewhere, or to the target without consent.
    for owner in [b'c', TARGET] {
        let mut pair = Pair::new();
        pair.source.follow_table(at(5), node(SOURCE), true, owner_is(owner));
        pair.target.follow_table(at(5), node(TARGET), true, owner_is(owner));
        let target = if owner == TARGET { Step::Canceled } else { Step::Failed };
        assert_eq!(pair.steps(), (Step::Canceled, target));
    }
    let mut pair = Pair::new();
    pair.source.follow_table(at(5), node(SOURCE), false, owner_is(b'c'));
    pair.target.follow_table(at(5), node(TARGET), false, owner_is(SOURCE));
    assert_eq!(pair.steps(), (Step::Canceled, Step::Canceled));
    assert!(pair.tasks().1.error.starts_with("Cancelled due to switching to replica"));
}

#[test]
fn the_archive_is_bounded() {
    let limits = super::super::Limits { archive_max: 3, ..LIMITS };
    let [_, mut target] = Pair::machines(limits);
    for slot in 0..5 {
        assert!(target.import_slots(at(0), &cluster(TARGET, ""), vec![(slot, slot)]).is_ok());
        let job = target.jobs().next().unwrap().id;
        assert_eq!(target.cancel_tasks(at(0), None), 1);
        target.cleaned(at(0), job);
    }
    let kept: Vec<u16> = target.tasks().map(|task| task.ranges[0].0).collect();
    assert_eq!(kept, [4, 3, 2]);
}

/// Any order of events: at no time does the target own the slots while the source takes writes for them, and
/// after an end neither holds anything.
#[test]
fn no_order_of_events_has_both_ends_write() {
    let first = std::env::var("MARTLET_CLUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + 300 {
        let mut random = Random::seeded(seed);
        let mut pair = Pair::new();
        let (mut has_taken, mut now, mut in_flight) = (false, 10, Vec::new());
        for _ in 0..60 {
            now += random.below(400) as i64;
            let (export, import) = (pair.export, pair.import);
            match random.below(11) {
                0 => pair.source.snapshot_begun(at(now), export),
                1 => pair.source.snapshot_sent(at(now), export),
                2 => pair.target.snapshot_comes(at(now), import),
                3 => pair.target.hear(at(now), import, Message::SnapshotEof),
                4 => pair.source.target_acked(at(now), export, true),
                5 if random.below(8) == 0 => pair.source.lost(at(now), export),
                6 if random.below(8) == 0 => pair.target.fail(at(now), import, "why"),
                7 if random.below(8) == 0 => drop(pair.source.cancel_tasks(at(now), None)),
                8 if random.below(8) == 0 => drop(pair.target.cancel_tasks(at(now), None)),
                9 => {
                    if let Some((sent, Message::StreamEof)) = in_flight.pop() {
                        // The source's end of the connection is closed once it has given up.
                        let is_open = pair.source.job(export).is_some_and(|job| !job.state.is_finished());
                        let message = Message::StreamEof;
                        if is_open || now - sent < 2_000 && has_taken {
                            pair.target.hear(at(now), import, message);
                        }
                    }
                }
                _ => pair.source.tick(at(now), |_| Some(now / 1_000)),
            }
            for action in pair.source.take_actions() {
                match action {
                    Action::TryPause(job) => pair.source.paused(at(now), job, random.below(2) == 0),
                    Action::Send(job, Message::StreamEof) if pair.source.consents(at(now), job) => {
                        in_flight.push((now, Message::StreamEof));
                    }
                    _ => {}
                }
            }
            for action in pair.source.take_actions() {
                if let Action::Send(job, Message::StreamEof) = action
                    && pair.source.consents(at(now), job)
                {
                    in_flight.push((now, Message::StreamEof));
                }
            }
            for action in pair.target.take_actions() {
                match action {
                    Action::TakeSlots(job) if pair.target.slots_to_take(job).is_some() => {
                        assert!(pair.source.holds_writes(), "seed {seed}: the source takes writes");
                        has_taken = true;
                        pair.target.taken(at(now), job);
                        pair.source.follow_table(at(now), node(SOURCE), true, owner_is(TARGET));
                    }
                    Action::CleanUp(job) => pair.target.cleaned(at(now), job),
                    _ => {}
                }
            }
            let is_over = pair.steps() == (Step::Completed, Step::Completed);
            assert_eq!(has_taken, is_over, "seed {seed}");
            assert!(!has_taken || !pair.source.holds_writes() && !pair.target.is_importing(0), "seed {seed}");
        }
    }
}
