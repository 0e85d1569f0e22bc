//! The table of hooks: for each turn of the runtime, the subsystems' functions.

use crate::commands::HANDLERS;
use crate::replication::replica::thread::start;
use crate::runtime::Worker;
use crate::runtime::hooks::Hooks;

/// The hooks of all subsystems.
pub static HOOKS: Hooks = Hooks {
    handlers: &HANDLERS,
    configured: |worker| worker.note_replicas(),
    keys_changed: |worker, news| {
        worker.tell_trackers(&news);
        worker.publish_events(news.events);
    },
    keys_read: |worker, client, entry, args| worker.remember_read(client, entry, args),
    tracked_request_begins: |worker, connection, reply| worker.before_tracked(connection, reply),
    ran_on_replica: |worker, entry, args| worker.remember_own_keys(entry, args),
    tracked_request_ended: |worker, connection, entry| worker.after_tracked(connection, entry),
    replicas_request_ended: |worker, connection, reply, entry, before| {
        worker.refuse_reply(connection, reply, entry, before);
    },
    import_answered: |worker, connection, answer| worker.note_imported(connection, answer),
    before_close: |worker, connection| {
        worker.unsubscribe_all(connection);
        worker.stop_tracking(connection);
        worker.stop_replicating(connection);
        worker.stop_importing(connection);
        worker.stop_exporting(connection);
    },
    apply_together: Worker::join_parallel_apply,
    copy_primary: start,
    turn_ended: Worker::send_broadcasts,
    feed_replicas: |worker, backend| worker.feed_replicas(backend),
    every_100_ms,
    message_arrived: |worker, delivery| worker.deliver(delivery),
    notice_arrived: |worker, token, client, notice| worker.hand_notice(token, client, notice),
    migrate: Worker::resume_migration,
    shut_down: |worker, flags| worker.end_with(flags),
};

fn every_100_ms(worker: &mut Worker, is_second_over: bool) {
    if is_second_over && worker.feeder.count() > 0 {
        worker.keep_waiting_replicas();
    }
    if worker.thread == 0 {
        worker.replication_cron(is_second_over);
        worker.limit_tracking();
        worker.end_broadcasting();
        worker.expire_own_keys();
        worker.end_temporary_indexes();
        if is_second_over {
            crate::search::agreement::look(worker);
            worker.shared.cursors.end_due(worker.shared.indexes, worker.now_ms);
        }
    }
}
