//! Both ends of a migration, with their messages carried by hand.

use super::*;

pub(super) const LIMITS: Limits = Limits {
    silence_s: 60,
    failover_ms: 5_000,
    log_max: 2,
    archive_max: 32,
    pause_ms: 10_000,
    drain_ms: 60_000,
};

pub(super) fn at(ms: i64) -> Time {
    Time { mono_ms: ms, unix_ms: ms }
}

pub(super) fn node(byte: u8) -> NodeId {
    NodeId::parse(&[byte; 40]).unwrap()
}

/// Both ends, and their messages so far.
struct Pair {
    source: SlotMigrations,
    target: SlotMigrations,
    export: JobId,
    import: JobId,
}

pub(super) fn done(actions: Vec<Action>) -> Vec<Action> {
    actions.into_iter().filter(|action| !matches!(action, Action::Log { .. })).collect()
}

impl Pair {
    /// Established, and about to make the cut.
    fn new() -> Pair {
        let new = |seed| SlotMigrations::new(Random::seeded(seed), LIMITS, true);
        let (mut source, mut target) = (new(1), new(2));
        let nodes = (node(b'a'), node(b'b'));
        let export = source.export(at(0), nodes, vec![(1, 3), (7, 7)]);
        assert_eq!(done(source.take_actions()), [Action::Connect(export)]);
        source.connected(at(0), export, true);
        source.auth_sent(at(0), export);
        source.authenticated(at(0), export);
        source.establish_sent(at(0), export);
        let name = source.job(export).unwrap().name;
        let import = target.import(at(0), name, Some(nodes), vec![(1, 3), (7, 7)]);
        assert_eq!(done(target.take_actions()), [Action::Hide]);
        source.established(at(0), export);
        let expected = [Action::Send(export, Message::Ack), Action::Snapshot(export)];
        assert_eq!(done(source.take_actions()), expected);
        target.hear(at(0), import, Message::Ack);
        Pair { source, target, export, import }
    }

    fn states(&self) -> (State, State) {
        (self.source.job(self.export).unwrap().state, self.target.job(self.import).unwrap().state)
    }

    /// All keys of the cut have been sent, and the source may pause.
    fn stream(&mut self) {
        self.source.snapshot_begun(at(1), self.export);
        self.source.snapshot_sent(at(1), self.export);
        self.target.hear(at(1), self.import, Message::SnapshotEof);
        assert_eq!(done(self.target.take_actions()), [Action::Send(self.import, Message::RequestPause)]);
        self.source.hear(at(1), self.export, Message::RequestPause);
        assert_eq!(done(self.source.take_actions()), [Action::TryPause(self.export)]);
    }

    fn pause(&mut self) {
        self.source.paused(at(2), self.export, true);
        assert_eq!(done(self.source.take_actions()), [Action::Send(self.export, Message::Paused)]);
        self.target.hear(at(2), self.import, Message::Paused);
        assert_eq!(done(self.target.take_actions()), [Action::Send(self.import, Message::RequestFailover)]);
    }

    fn grant(&mut self) {
        self.source.hear(at(3), self.export, Message::RequestFailover);
        assert_eq!(done(self.source.take_actions()), [Action::Send(self.export, Message::FailoverGranted)]);
        self.target.hear(at(3), self.import, Message::FailoverGranted);
        assert_eq!(done(self.target.take_actions()), [Action::TakeSlots(self.import)]);
    }
}

#[test]
fn a_migration_goes_from_end_to_end() {
    let mut pair = Pair::new();
    pair.stream();
    pair.source.paused(at(1), pair.export, false);
    assert_eq!(pair.states(), (State::WaitingToPause, State::WaitingForPaused));
    pair.source.tick(at(100), |_| None);
    assert_eq!(done(pair.source.take_actions()), [Action::TryPause(pair.export)]);
    pair.pause();
    pair.grant();
    assert_eq!(pair.states(), (State::ExportGranted, State::ImportGranted));
    pair.target.taken(at(4), pair.import);
    let name = pair.target.job(pair.import).unwrap().name;
    let told = Action::TellEnd { name, is_success: true, message: None };
    assert_eq!(done(pair.target.take_actions()), [Action::Close(pair.import), Action::Hide, told]);
    pair.source.lost(at(4), pair.export);
    assert_eq!(pair.states(), (State::ExportGranted, State::Success));
    pair.source.follow_table(at(5), node(b'a'), true, |_| Some(node(b'b')));
    assert_eq!(done(pair.source.take_actions()), [Action::Resume, Action::Close(pair.export)]);
    assert_eq!(pair.states(), (State::Success, State::Success));
    assert!(pair.target.importing().is_empty() && !pair.source.is_active());
}

/// Whatever is cut off before the source's consent: the slots stay where they were.
#[test]
fn a_link_that_ends_before_the_consent_leaves_all_as_it_was() {
    for steps in 0..3 {
        let mut pair = Pair::new();
        if steps > 0 {
            pair.stream();
        }
        if steps > 1 {
            pair.pause();
        }
        pair.source.lost(at(9), pair.export);
        pair.target.lost(at(9), pair.import);
        assert_eq!(pair.states(), (State::Failed, State::CleaningUp), "after {steps} steps");
        assert!(pair.target.is_importing(2), "what is being deleted stays hidden");
        let resumed = done(pair.source.take_actions()).contains(&Action::Resume);
        assert_eq!(resumed, steps > 1);
        assert_eq!(
            done(pair.target.take_actions()),
            [Action::Close(pair.import), Action::CleanUp(pair.import)]
        );
        pair.target.cleaned(at(9), pair.import);
        assert!(!pair.target.is_importing(2));
        let message = pair.target.job(pair.import).unwrap().message.clone().unwrap();
        assert!(message.starts_with("Connection lost to source."), "{message}");
    }
}

#[test]
fn a_pause_ends_by_time_whatever_the_target_does() {
    let mut pair = Pair::new();
    pair.stream();
    pair.pause();
    pair.source.tick(at(10_002), |_| None);
    assert!(!done(pair.source.take_actions()).contains(&Action::Resume));
    pair.source.tick(at(10_003), |_| None);
    assert!(done(pair.source.take_actions()).contains(&Action::Resume));
    let job = pair.source.job(pair.export).unwrap();
    assert_eq!(job.message.as_deref(), Some("Timed out before streaming completed"));
    // Consent that was asked for too late is not given.
    pair.source.hear(at(10_004), pair.export, Message::RequestFailover);
    assert!(done(pair.source.take_actions()).is_empty());
}

#[test]
fn who_has_ended_holds_no_writes_although_it_has_asked_for_that() {
    let mut pair = Pair::new();
    pair.stream();
    assert!(pair.source.cancel(at(2)));
    pair.source.paused(at(2), pair.export, true);
    assert!(!pair.source.holds_writes());
    // A source that has paused writes keeps the pause until it is over.
    let mut pair = Pair::new();
    pair.stream();
    pair.pause();
    assert!(pair.source.holds_writes());
    pair.source.lost(at(3), pair.export);
    assert!(!pair.source.holds_writes() && done(pair.source.take_actions()).contains(&Action::Resume));
}

#[test]
fn after_its_consent_the_source_waits_for_the_bus_or_for_the_end_of_the_pause() {
    let mut pair = Pair::new();
    pair.stream();
    pair.pause();
    pair.grant();
    pair.source.lost(at(4), pair.export);
    pair.source.tick(at(9_000), |_| None);
    assert_eq!(pair.states().0, State::ExportGranted);
    pair.source.tick(at(10_003), |_| None);
    let job = pair.source.job(pair.export).unwrap();
    assert_eq!(job.state, State::Failed);
    assert!(job.message.as_ref().is_some_and(|text| text.starts_with("Unpaused before migration completed")));
}

#[test]
fn silence_flushes_and_strange_messages_end_it() {
    let silent =
        |end: &mut SlotMigrations, id: JobId| end.tick(at(61_000), move |job| (job == id).then_some(0));
    let flushed = |end: &mut SlotMigrations, _| end.flushed(at(5));
    let strange = |end: &mut SlotMigrations, id| end.hear(at(5), id, Message::RequestFailover);
    let unknown = |end: &mut SlotMigrations, id| end.hear(at(5), id, Message::Unknown);
    type Event = fn(&mut SlotMigrations, JobId);
    let cases: [(Event, &str); 4] = [
        (silent, "Timed out after too long with no interaction"),
        (flushed, "Data was flushed"),
        (strange, UNEXPECTED),
        (unknown, "Unknown SYNCSLOTS subcommand used"),
    ];
    for (event, message) in cases {
        let mut pair = Pair::new();
        event(&mut pair.source, pair.export);
        event(&mut pair.target, pair.import);
        assert_eq!(pair.source.job(pair.export).unwrap().message.as_deref(), Some(message));
        assert_eq!(pair.target.job(pair.import).unwrap().message.as_deref(), Some(message));
        assert_eq!(pair.states(), (State::Failed, State::CleaningUp));
    }
}

#[test]
fn the_table_and_the_role_decide() {
    // The slots go elsewhere.
    let mut pair = Pair::new();
    pair.source.follow_table(at(5), node(b'a'), true, |slot| Some(node(if slot == 2 { b'c' } else { b'a' })));
    pair.target.follow_table(at(5), node(b'b'), true, |_| Some(node(b'c')));
    assert_eq!(pair.states(), (State::Failed, State::CleaningUp));
    // The target becomes a replica, and a primary again.
    let mut pair = Pair::new();
    pair.target.follow_table(at(5), node(b'b'), false, |_| Some(node(b'a')));
    assert_eq!(pair.states().1, State::OccurringOnPrimary);
    assert!(pair.target.job(pair.import).unwrap().is_tracking_only() && pair.target.is_importing(7));
    pair.target.follow_table(at(6), node(b'b'), true, |_| Some(node(b'a')));
    assert!(done(pair.target.take_actions()).ends_with(&[Action::CleanUp(pair.import)]));
}

#[test]
fn a_replica_follows_its_primarys_imports() {
    let mut replica = SlotMigrations::new(Random::seeded(3), LIMITS, false);
    let name = node(b'e');
    replica.import(at(0), name, None, vec![(4, 4)]);
    assert!(replica.is_importing(4));
    let words: [&[u8]; 6] = [b"STATE", b"FAILED", b"NAME", name.as_bytes(), b"MESSAGE", b"why"];
    let finish = parse_finish(&words, |known| known == name).unwrap();
    replica.take_actions();
    assert!(replica.end_told(at(1), &finish));
    assert_eq!(done(replica.take_actions()), [Action::Hide]);
    assert!(!replica.is_importing(4));
    assert_eq!(replica.jobs().next().unwrap().message.as_deref(), Some("why"));
    assert!(!replica.end_told(at(1), &Finish { name: node(b'f'), ..finish }));
}

#[test]
fn the_log_keeps_the_newest_and_all_that_go_on() {
    let mut source = SlotMigrations::new(Random::seeded(4), LIMITS, true);
    let nodes = (node(b'a'), node(b'b'));
    let jobs: Vec<JobId> = (0..4).map(|slot| source.export(at(0), nodes, vec![(slot, slot)])).collect();
    assert!(source.cancel(at(0)));
    assert!(!source.cancel(at(0)));
    source.tick(at(100), |_| None);
    let kept: Vec<JobId> = source.jobs().map(|job| job.id).collect();
    assert_eq!(kept, [jobs[3], jobs[2]]);
    assert_eq!(source.job(jobs[3]).unwrap().state.name(), "cancelled");
    let going: Vec<JobId> = (0..3).map(|slot| source.export(at(0), nodes, vec![(slot, slot)])).collect();
    source.tick(at(200), |_| None);
    assert_eq!(source.jobs().map(|job| job.id).collect::<Vec<_>>(), [going[2], going[1], going[0]]);
    // A shorter log counts at once, for those that are over.
    assert!(source.cancel(at(300)));
    source.set_limits(Limits { log_max: 1, ..LIMITS });
    assert_eq!(source.jobs().map(|job| job.id).collect::<Vec<_>>(), [going[2]]);
    source.set_limits(Limits { log_max: 0, ..LIMITS });
    assert_eq!(source.jobs().count(), 0);
}

/// Consent cannot be taken back, and is worth nothing once the source may let others write.
#[test]
fn consent_lasts_for_a_while_whatever_else_happens() {
    let mut pair = Pair::new();
    pair.stream();
    pair.pause();
    pair.source.hear(at(3), pair.export, Message::RequestFailover);
    assert!(pair.source.cancel(at(4)));
    pair.source.flushed(at(4));
    pair.source.hear(at(4), pair.export, Message::Unknown);
    pair.source.take_actions();
    assert_eq!(pair.states().0, State::ExportGranted);
    pair.target.hear(at(2_003), pair.import, Message::FailoverGranted);
    assert_eq!(pair.states().1, State::CleaningUp);
    assert!(!done(pair.target.take_actions()).contains(&Action::TakeSlots(pair.import)));
}
