//! Threads that save and load beside the leading one: as many in all as serve clients.
//!
//! Invariant: when [`SaverPool::run`] returns, no thread works on it any more. A caller does not run two
//! works at once.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use martlet_base::sync::lock;

/// What each thread does, given its number from 0, the leader's.
pub type Work = Arc<dyn Fn(usize) + Send + Sync>;

struct Task {
    work: Work,
    /// Dropped when the task has ended, however it did.
    ended: Sender<()>,
}

/// See the module's page. The threads live as long as the process.
#[derive(Default)]
pub struct SaverPool(Mutex<Vec<Sender<Task>>>);

impl SaverPool {
    /// Starts threads, so that `count` work with the leader; each calls `begin` first.
    ///
    /// # Errors
    /// When the operating system refuses one.
    pub fn start(&self, count: usize, begin: impl Fn() + Clone + Send + 'static) -> std::io::Result<()> {
        for index in 1..count {
            let (sender, tasks) = channel::<Task>();
            let begin = begin.clone();
            let body = move || {
                martlet_base::thread::use_batch_scheduling();
                begin();
                for task in tasks {
                    (task.work)(index);
                    // Before the leader hears of it, which may want the shared state alone.
                    drop(task.work);
                    let _ = task.ended.send(());
                }
            };
            std::thread::Builder::new().name(format!("snapshot-{index}")).spawn(body)?;
            lock(&self.0).push(sender);
        }
        Ok(())
    }

    /// Has every thread do `work`, the calling one included; whether all came to their ends.
    pub fn run(&self, work: Work) -> bool {
        let helpers = lock(&self.0).clone();
        let (ended, ends) = channel();
        for helper in &helpers {
            // One that is gone has not come to its end.
            let _ = helper.send(Task { work: work.clone(), ended: ended.clone() });
        }
        drop(ended);
        work(0);
        drop(work);
        ends.iter().count() == helpers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_work_and_nobody_is_waited_for_in_vain() {
        let pool = SaverPool::default();
        pool.start(4, || ()).unwrap();
        let sum = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let mine = sum.clone();
            assert!(pool.run(Arc::new(move |index| {
                mine.fetch_add(index + 1, Ordering::Relaxed);
            })));
            assert_eq!(Arc::strong_count(&sum), 1);
        }
        assert_eq!(sum.load(Ordering::Relaxed), 100 * (1 + 2 + 3 + 4));
        assert!(!pool.run(Arc::new(|index| assert_ne!(index, 2, "one dies"))));
        assert!(!pool.run(Arc::new(|_| ())));
    }
}
