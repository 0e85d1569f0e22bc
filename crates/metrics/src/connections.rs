//! The connections of a listener: how many there may be, and which one goes when another comes.
//!
//! A connection is *idle* while it depends on its peer: the head or the body of its request is not there, or
//! its answer is not read. It is *busy* while its answer is being made. Invariant: there are at most as many
//! as the limit says; a busy one is never removed for another.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use martlet_base::sync::lock;

/// See the [module docs](self).
pub struct Connections {
    max: usize,
    open: Mutex<Open>,
    /// A connection is over, or idle again.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    /// The oldest first.
    entries: Vec<Entry>,
}

struct Entry {
    id: u64,
    is_busy: bool,
    /// Ends the connection.
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl Connections {
    /// At most `max` connections at once.
    pub fn new(max: usize) -> Connections {
        Connections { max, open: Mutex::default(), changed: Notify::new() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        lock(&self.open)
    }

    /// Gives a new connection its place, that of the oldest idle one if all are taken; waits while all are
    /// busy.
    pub async fn enter(self: &Arc<Connections>) -> Place {
        loop {
            let changed = self.changed.notified();
            if let Some(entered) = self.try_enter() {
                return entered;
            }
            changed.await;
        }
    }

    fn try_enter(self: &Arc<Connections>) -> Option<Place> {
        let mut open = self.open();
        let mut end = None;
        if open.entries.len() >= self.max {
            let oldest = open.entries.iter().position(|entry| !entry.is_busy)?;
            end = open.entries.remove(oldest).end;
        }
        let id = open.next_id;
        open.next_id += 1;
        open.entries.push(Entry { id, is_busy: false, end: None });
        drop(open);
        end.into_iter().for_each(|end| end());
        Some(Place { id, connections: Arc::clone(self) })
    }

    fn set_busy(&self, id: u64, is_busy: bool) {
        let mut open = self.open();
        open.entries.iter_mut().filter(|entry| entry.id == id).for_each(|entry| entry.is_busy = is_busy);
        drop(open);
        self.changed.notify_one();
    }
}

/// The place of a connection, given up when it is dropped.
pub struct Place {
    id: u64,
    connections: Arc<Connections>,
}

/// The number of a place, by which its end is arranged.
#[derive(Clone)]
pub struct PlaceId(u64, Arc<Connections>);

impl PlaceId {
    /// Has `end` called when the place goes to another connection.
    pub fn end_with(self, end: impl FnOnce() + Send + 'static) {
        let mut open = self.1.open();
        if let Some(entry) = open.entries.iter_mut().find(|entry| entry.id == self.0) {
            entry.end = Some(Box::new(end));
        }
    }
}

impl Place {
    /// See [`PlaceId`].
    pub fn id(&self) -> PlaceId {
        PlaceId(self.id, Arc::clone(&self.connections))
    }

    /// Marks the connection busy until the returned value is dropped: its answer is being made.
    pub fn begin_answer(&self) -> Busy<'_> {
        self.connections.set_busy(self.id, true);
        Busy(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open().entries.retain(|entry| entry.id != self.id);
        self.connections.changed.notify_one();
    }
}

/// See [`Place::begin_answer`].
pub struct Busy<'a>(&'a Place);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.connections.set_busy(self.0.id, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn enter(connections: &Arc<Connections>) -> Option<(Place, Arc<AtomicBool>)> {
        let place = connections.try_enter()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        place.id().end_with(move || over.store(true, Ordering::SeqCst));
        Some((place, is_over))
    }

    #[test]
    fn the_oldest_that_is_idle_makes_place() {
        let connections = Arc::new(Connections::new(3));
        let entered: Vec<_> = (0..3).map(|_| enter(&connections).unwrap()).collect();
        let busy = entered[0].0.begin_answer();
        let fourth = enter(&connections).unwrap();
        assert_eq!(connections.open().entries.len(), 3);
        drop(busy);
        let over: Vec<_> = entered.iter().map(|(_, is_over)| is_over.load(Ordering::SeqCst)).collect();
        assert_eq!(over, [false, true, false]);
        let answers: Vec<_> =
            [&entered[0].0, &entered[2].0, &fourth.0].into_iter().map(Place::begin_answer).collect();
        assert!(enter(&connections).is_none(), "all answers are being made");
        drop(answers);
        assert!(enter(&connections).is_some_and(|(_, is_over)| !is_over.load(Ordering::SeqCst)));
        drop((entered, fourth));
        assert!(connections.open().entries.is_empty(), "the last was dropped at once");
    }
}
