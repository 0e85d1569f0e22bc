//! Which acknowledgements of replicas count, and which of them a reply that waits may rely on.
//!
//! Invariant: a confirmed position has been in the memory of at least the wanted number of replicas.

/// A primary's replica, as far as its acknowledgements are concerned.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaAck {
    /// It has the data set, and follows the stream.
    pub is_online: bool,
    /// Its connection is about to end: by the name that it knows, the stream may have ended already.
    pub is_leaving: bool,
    /// It has connected again, and this older connection has not ended yet.
    pub is_superseded: bool,
    /// The offset that it has acknowledged on this connection; 0 if none.
    pub acked: u64,
}

impl ReplicaAck {
    /// Whether it may be sent more of the stream, and be relied on.
    pub fn is_served(&self) -> bool {
        self.is_online && !self.is_leaving
    }

    /// Whether its acknowledgements count. A replica has one memory, whatever the number of its connections,
    /// and the newest connection reports its state.
    fn counts(&self) -> bool {
        self.is_served() && !self.is_superseded
    }

    /// Whether it has everything up to `offset`.
    pub fn has(&self, offset: u64) -> bool {
        self.counts() && self.acked >= offset
    }
}

/// How many have everything up to `offset`.
pub fn count_with(replicas: impl Iterator<Item = ReplicaAck>, offset: u64) -> usize {
    replicas.filter(|replica| replica.has(offset)).count()
}

/// The offset that `count` of them have come to; `None` with fewer.
pub fn acked_by(replicas: impl Iterator<Item = ReplicaAck>, count: usize) -> Option<u64> {
    let mut acked: Vec<_> = replicas.filter(ReplicaAck::counts).map(|replica| replica.acked).collect();
    acked.sort_unstable_by(|a, b| b.cmp(a));
    acked.get(count.checked_sub(1)?).copied()
}

/// What replicas have been asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Getack {
    /// Once it is answered, everything recorded before this position is with them.
    pub position: u64,
    /// The replication offset that answers it.
    pub offset: u64,
}

/// The GETACK under way: one at a time, and effects recorded during it share the next.
#[derive(Clone, Debug, Default)]
pub struct GetackRound {
    asked: Option<Getack>,
}

impl GetackRound {
    /// Whether replicas are to be asked about effects recorded up to `end`: not while `wanted` is 0, as on a
    /// replica, whose stream is another server's.
    pub fn may_ask(&self, wanted: usize, confirmed: u64, end: u64) -> bool {
        wanted > 0 && self.asked.is_none() && confirmed < end
    }

    /// They have been asked.
    pub fn ask(&mut self, question: Getack) {
        self.asked = Some(question);
    }

    /// Takes the answer: `wanted` replicas have reached `acked`. Returns the position that this confirms.
    pub fn answer(&mut self, acked: Option<u64>) -> Option<u64> {
        let answered = self.asked.take_if(|asked| acked.is_some_and(|offset| offset >= asked.offset))?;
        Some(answered.position)
    }

    /// Another number of replicas is wanted: an old answer says nothing.
    pub fn forget(&mut self) {
        self.asked = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online(acked: u64) -> ReplicaAck {
        ReplicaAck { is_online: true, is_leaving: false, is_superseded: false, acked }
    }

    #[test]
    fn only_who_follows_the_stream_counts() {
        let gone = ReplicaAck { is_leaving: true, ..online(900) };
        let loading = ReplicaAck { is_online: false, ..online(800) };
        let older = ReplicaAck { is_superseded: true, ..online(850) };
        let all = [gone, loading, older, online(50), online(70), online(60)];
        let acked = |count| acked_by(all.iter().copied(), count);
        assert_eq!([0, 1, 2, 3, 4].map(acked), [None, Some(70), Some(60), Some(50), None]);
        let counts = [0, 50, 51, 70, 71].map(|offset| count_with(all.iter().copied(), offset));
        assert_eq!(counts, [3, 3, 2, 1, 0]);
    }

    #[test]
    fn one_question_at_a_time_is_asked_and_answered() {
        let mut getack_round = GetackRound::default();
        assert!(!getack_round.may_ask(0, 0, 10), "a replica asks nobody");
        assert!(!getack_round.may_ask(1, 10, 10) && getack_round.may_ask(1, 9, 10));
        getack_round.ask(Getack { position: 10, offset: 100 });
        assert!(!getack_round.may_ask(1, 0, 20));
        assert_eq!((getack_round.answer(None), getack_round.answer(Some(99))), (None, None));
        assert_eq!((getack_round.answer(Some(100)), getack_round.answer(Some(100))), (Some(10), None));
        getack_round.ask(Getack { position: 20, offset: 200 });
        getack_round.forget();
        assert_eq!(getack_round.answer(Some(u64::MAX)), None);
    }
}
