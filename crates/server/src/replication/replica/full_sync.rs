//! A full sync: the snapshot that the primary sends is received and loaded.

use std::io::{self, Write};
use std::sync::mpsc::sync_channel;

use martlet_base::disk::error_text;
use martlet_engine::Outside;
use martlet_persistence::load::{Source, check_start};

use super::link::{Ended, Link, PERIOD, SILENT, broken};
use super::transfer::Transfer;
use super::{diskless, load};

impl Link {
    /// Receives a snapshot and loads it. `place` is where in the stream it is, if the primary has sent it.
    pub(super) fn synchronize(&mut self, place: Option<(String, u64)>) -> Result<(), Ended> {
        match self.way()? {
            diskless::Way::File => self.synchronize_by_file(place),
            way => self.synchronize_diskless(way, place),
        }
    }

    fn synchronize_by_file(&mut self, place: Option<(String, u64)>) -> Result<(), Ended> {
        let settings = crate::persistence::settings::settings(&self.shared.config.snapshot());
        let refused = |error: io::Error| {
            broken(format!(
                "Opening the temp file needed for MASTER <-> REPLICA synchronization: {}",
                error_text(&error)
            ))
        };
        let outside = Outside::of_background_thread();
        let mut file = self.shared.storage().new_received_file(&outside, &settings).map_err(refused)?;
        self.receive_snapshot(&mut file)?;
        let renaming = |error: io::Error| {
            broken(format!(
                "Failed trying to rename the temp DB into {} in MASTER <-> REPLICA synchronization: {}",
                settings.dbfilename.display(),
                error_text(&error)
            ))
        };
        let file = file.sync().map_err(renaming)?;
        // The old data and its file stay if the new ones are of a version that cannot be read.
        let unloadable = |why| Ended::Unloadable { why, from: "disk" };
        check_start(&outside, file.path(), &settings).map_err(|why| unloadable(why.to_string()))?;
        file.publish().map_err(renaming)?;
        self.check()?;
        let path = settings.rdb_path();
        let opened = Source::open(&outside, &path).map_err(|error| broken(error_text(&error)))?;
        tracing::info!("MASTER <-> REPLICA sync: Flushing old data");
        let at_once = u64::from(self.shared.config.snapshot().loading_process_events_interval_bytes);
        let failure = match opened.len < at_once {
            true => load::replace(self.shared, self.generation, opened, place),
            false => self.replace_in_pieces(opened, place),
        };
        self.remove_received_file();
        let Some(failure) = failure else { return Err(Ended::Changed) };
        failure.map_err(unloadable)?;
        tracing::info!("MASTER <-> REPLICA sync: Finished with success");
        Ok(())
    }

    /// Removes the file that was received, if nothing is to be left on the disk.
    fn remove_received_file(&self) {
        let config = self.shared.config.snapshot();
        if config.rdb_del_sync_files && !config.has_persistence() {
            tracing::info!(
                "Removing the RDB file obtained from the master. This replica has persistence disabled"
            );
            let settings = crate::persistence::settings::settings(&config);
            self.shared.storage().remove_rdb_file(&Outside::of_background_thread(), &settings, || true);
        }
    }

    /// Loads a snapshot while clients get LOADING; `None` when the primary has become another.
    fn replace_in_pieces(
        &mut self,
        source: Source,
        place: Option<(String, u64)>,
    ) -> Option<Result<(), String>> {
        load::begin(self.shared, self.generation)?;
        tracing::info!("MASTER <-> REPLICA sync: Loading DB in memory");
        let loaded = self.load(source);
        let failure = loaded.as_ref().err().cloned();
        load::end(self.shared, self.generation, loaded.ok(), place)?;
        Some(failure.map_or(Ok(()), Err))
    }

    /// Receives a snapshot and writes it to `file`.
    fn receive_snapshot(&mut self, file: &mut impl Write) -> Result<(), Ended> {
        let mut transfer = Transfer::default();
        let (mut out, mut read_bytes, mut was_announced) = (Vec::new(), 0, false);
        loop {
            transfer.receive(&mut self.received, &mut out).map_err(broken)?;
            if transfer.has_begun() && !was_announced {
                was_announced = true;
                match transfer.total() {
                    Some(bytes) => {
                        tracing::info!("MASTER <-> REPLICA sync: receiving {bytes} bytes from master to disk")
                    }
                    None => tracing::info!(
                        "MASTER <-> REPLICA sync: receiving streamed RDB from master with EOF to disk"
                    ),
                }
            }
            read_bytes += out.len() as u64;
            file.write_all(&out).map_err(|error| {
                broken(format!(
                    "Write error or short write writing to the DB dump file needed for MASTER <-> REPLICA synchronization: {}",
                    error_text(&error)
                ))
            })?;
            out.clear();
            let total_bytes = transfer.total();
            self.replica.update(|status| status.receiving = super::Receiving { total_bytes, read_bytes });
            if transfer.has_ended() {
                return Ok(());
            }
            self.wait(true, PERIOD, SILENT)?;
        }
    }

    /// Loads a snapshot, telling the primary now and then that this server is there.
    fn load(&mut self, source: Source) -> Result<martlet_persistence::load::Loaded, String> {
        let (shared, wakeup) = (self.shared, &self.replica.link);
        std::thread::scope(|scope| {
            let (sender, loading) = sync_channel(1);
            scope.spawn(move || {
                let _ = sender.send(load::load(shared, source));
                wakeup.wake();
            });
            self.await_loaded(&loading)
        })
    }
}
