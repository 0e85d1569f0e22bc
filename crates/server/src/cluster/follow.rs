//! Following the node's two machines, the cluster's and that of slot migrations: a step of one may ask for
//! steps of the other. By a worker with exclusive access to the data set.

use std::sync::atomic::Ordering;

use martlet_cluster::slot_migration::Action;

use super::decisions::Taken;
use crate::runtime::{Mail, Worker};

impl Worker {
    /// Carries out the machine's decisions, and has requests checked against its routes from here on. All
    /// shards are locked.
    pub(crate) fn follow_cluster(&mut self) {
        let shared = self.shared;
        let Some(node) = shared.cluster().filter(|node| node.is_loaded.load(Ordering::SeqCst)) else {
            return;
        };
        loop {
            let Taken { decisions, routes } = node.take_decisions();
            if decisions.is_empty() && routes.is_none() {
                return;
            }
            let has_routes = routes.is_some();
            if let Some(routes) = routes.filter(|routes| *routes != *node.routes.snapshot()) {
                let reowned = routes.reowned(&node.routes.snapshot());
                reowned.into_iter().for_each(|slot| node.usage.reset(slot));
                node.routes.publish(routes);
                self.refresh_routes();
                for thread in 0..shared.thread_count() {
                    shared.send(thread, Mail::Run(Box::new(Worker::redirect_blocked)));
                }
            }
            decisions.into_iter().for_each(|decision| self.carry_out(node, decision));
            if has_routes {
                node.read(|cluster| {
                    let me = cluster.myself();
                    let owner = |slot| cluster.owner(slot).map(|key| cluster.node(key).id);
                    node.migrate(|machine, now| machine.follow_table(now, me.id, me.is_primary(), owner));
                });
                self.follow_migrations();
            }
        }
    }

    /// Carries out the actions of the slot migrations' machine. All shards are locked.
    pub(crate) fn follow_migrations(&mut self) {
        let Some(node) = self.shared.cluster() else { return };
        let mut has_taken = false;
        if self.shared.engine.hidden.take_flushed() {
            node.migrate(|machine, now| machine.flushed(now));
        }
        loop {
            let actions = node.migrate(|machine, _| machine.take_actions());
            if actions.is_empty() {
                break;
            }
            for action in actions {
                has_taken |= matches!(action, Action::TakeSlots(_));
                self.migration_action(node, action);
            }
        }
        if has_taken {
            self.follow_cluster();
        }
    }

    /// The files' data is there: keys that were on their way to this primary when it ended are deleted. All
    /// shards are locked.
    pub(super) fn end_found_imports(&mut self) {
        let Some(node) = self.shared.cluster().filter(|node| node.migrations.is_active()) else { return };
        node.migrate(|machine, now| machine.restarted(now));
        self.follow_migrations();
    }
}
