//! The thread that writes the append-only file.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use martlet_base::sync::lock;
use martlet_journal::aof::{Gather, StepError, SyncPolicy, Terms, Writer};

use martlet_base::disk::error_text;

use super::{AppendLog, Order};
use crate::Storage;

/// How long the thread lets records gather, while there are some, unless a client waits for the disk.
const GATHER: Duration = Duration::from_millis(1);
/// Time between a refusal of the disk and the next attempt.
const RETRY: Duration = Duration::from_millis(500);
/// Time until an owed synchronisation is checked again.
const OWED: Duration = Duration::from_millis(100);
/// How long it sleeps when nothing is to be done.
const IDLE: Duration = Duration::from_secs(3600);

/// Starts the thread, unless it is there.
///
/// # Errors
/// When the operating system has no memory for the journal or refuses the thread.
pub fn start(storage: Storage) -> io::Result<()> {
    if storage.persistence.log.has_writer.load(Ordering::SeqCst) {
        return Ok(());
    }
    let writer = Writer::new(&storage.engine.journal)?;
    storage.engine.journal.listen(|is_full| storage.host.note_journal(is_full));
    let body = move || {
        storage.host.begin_thread();
        run(storage, writer);
    };
    std::thread::Builder::new().name("aof".into()).spawn(body)?;
    storage.persistence.log.has_writer.store(true, Ordering::SeqCst);
    Ok(())
}

fn terms(storage: Storage) -> Terms {
    let settings = storage.host.settings();
    let log = &storage.persistence.log;
    let saves = || storage.persistence.background.running().is_some() || log.is_rewriting();
    let policy = match settings.appendfsync {
        _ if settings.no_appendfsync_on_rewrite && saves() => SyncPolicy::Never,
        policy => policy,
    };
    Terms { policy, now_ms: storage.now_ms(), timestamps: settings.aof_timestamp_enabled }
}

fn run(storage: Storage, mut writer: Writer<'static>) {
    let (log, journal) = (&storage.persistence.log, &storage.engine.journal);
    let mut was_busy = false;
    // Flushes asked for: the next step's records are those that came before them.
    let mut waiting = Vec::new();
    let mut gather = Gather::default();
    loop {
        let is_asked = || !lock(&log.orders).is_empty();
        if journal.holds_replies() {
            let began = martlet_base::clock::monotonic();
            while !is_asked()
                && gather.waits(journal.end().saturating_sub(writer.position()), began.elapsed())
            {
                std::thread::sleep(gather.slice());
            }
        }
        // Read first: a switch that is asked for later begins at this position or behind it.
        let end = journal.end();
        let terms = terms(storage);
        let durable = journal.durable();
        // An order behind a flush comes after it: the file may end there.
        let asked = if waiting.is_empty() { take_orders(log, &mut writer) } else { Vec::new() };
        let flushes = std::mem::replace(&mut waiting, asked);
        let (began, group_bytes) = (martlet_base::clock::monotonic(), end.saturating_sub(writer.position()));
        let sleep_us = log.flush_sleep_us.load(Ordering::Relaxed);
        if sleep_us > 0 && group_bytes > 0 {
            // As if the disk took longer.
            std::thread::sleep(Duration::from_micros(sleep_us));
        }
        log.syncing.store(1, Ordering::Relaxed);
        let result = match flushes.is_empty() {
            true => writer.step(end, &terms),
            false => writer.flush(end, &terms).map(|()| true),
        };
        log.syncing.store(0, Ordering::Relaxed);
        if terms.policy == SyncPolicy::Always {
            gather.synced(group_bytes, journal.end() - end, began.elapsed());
        }
        let is_good = result.is_ok() && !writer.is_doubtful();
        if terms.policy == SyncPolicy::Never && journal.holds_replies() && is_good {
            // The configuration leaves it to the operating system while the disk is busy with a save.
            journal.set_durable(end);
        }
        note_sizes(log, &writer);
        note_result(storage, &writer, result.as_ref().err());
        for flush in &flushes {
            // The waiting client may have given up.
            let _ = flush.send(is_good);
        }
        if journal.durable() > durable {
            storage.host.disk_went_on();
        }
        if !waiting.is_empty() {
            continue;
        }
        let has_more = || is_asked() || journal.end() > writer.position();
        match result {
            Err(_) => journal.sleep(false, RETRY, is_asked),
            Ok(true) if journal.holds_replies() => {}
            // A client that waits for the disk nudges.
            Ok(_) if journal.holds_replies() => journal.sleep(false, OWED, has_more),
            Ok(is_busy) if is_busy || was_busy => {
                was_busy = is_busy;
                journal.sleep(false, GATHER, is_asked);
            }
            Ok(_) if writer.is_unsynced() => journal.sleep(true, OWED, has_more),
            Ok(_) => journal.sleep(true, IDLE, has_more),
        }
    }
}

/// Carries out orders that do not depend on the records; answers clients that wait for a flush.
fn take_orders(log: &AppendLog, writer: &mut Writer<'_>) -> Vec<std::sync::mpsc::Sender<bool>> {
    let mut orders = lock(&log.orders);
    let flush = orders.iter().position(|order| matches!(order, Order::Flush(_)));
    // Flushes that follow each other are one.
    let others = |from: usize| orders.range(from..).position(|order| !matches!(order, Order::Flush(_)));
    let end = flush.and_then(|flush| others(flush).map(|others| flush + others)).unwrap_or(orders.len());
    let orders: VecDeque<Order> = orders.drain(..end).collect();
    let mut flushes = Vec::new();
    for order in orders {
        match order {
            Order::Switch { from, file, bytes, earlier_bytes } => {
                writer.switch(from, file, bytes, earlier_bytes);
            }
            // Listed files stay: a new log's bytes count beside them until its first base is whole.
            Order::Stop { from, is_listed } => writer.stop(from, is_listed),
            Order::Rewritten { position, base_bytes, all_bytes } => {
                writer.rewritten(position, base_bytes);
                // While the orders are locked: nobody takes the old sizes for those after the rewrite.
                note_sizes(log, writer);
                log.base_bytes.store(all_bytes, Ordering::Relaxed);
                if writer.is_doubtful() {
                    log.schedule_rewrite();
                }
            }
            Order::Flush(sender) => flushes.push(sender),
        }
    }
    flushes
}

fn note_sizes(log: &AppendLog, writer: &Writer<'_>) {
    log.current_bytes.store(writer.files_bytes(), Ordering::Relaxed);
    log.buffered_bytes.store(writer.buffered_bytes(), Ordering::Relaxed);
}

/// Logs changes of the disk's behaviour, and has writes refused while it does not take them.
fn note_result(storage: Storage, writer: &Writer<'_>, error: Option<&StepError>) {
    let log = &storage.persistence.log;
    let was_refused = log.refuses_writes.load(Ordering::SeqCst);
    match error {
        Some(StepError::Write(error)) => {
            if !was_refused {
                tracing::warn!("Error writing to the AOF file: {}", error_text(error));
            }
            storage.note_log_state(Some(error_text(error)));
        }
        Some(StepError::Sync(error)) => {
            tracing::warn!("Fail to fsync the AOF file: {}. It is rewritten.", error_text(error));
            storage.note_log_state(Some(error_text(error)));
            lock(&log.facts).is_scheduled = true;
        }
        None if was_refused && !writer.is_doubtful() && !log.lacks_base.load(Ordering::SeqCst) => {
            tracing::warn!("AOF write error looks solved, The server can write again.");
            storage.note_log_state(None);
        }
        None => {}
    }
}
