//! Whether a request is for this node: of a client, of EXEC, of a script, and of a blocked client.

use martlet_base::hash::slot_in;
use martlet_base::slot::slot_of;
use martlet_command::{Error, Flags, Outcome, Wait};
use martlet_keyspace::Key;
use martlet_protocol::request::Args;
use martlet_script::flags::ScriptFlags;

use crate::cluster::routes::{Client, Redirect, Routes, Wanted};
use crate::connection::{Connection, Suspended, Transaction};
use crate::registry::{Entry, slot_of_keys};
use crate::runtime::Worker;
use crate::runtime::request_flags::executed;
use crate::scripting::facts::flags_of;
use crate::slow_path::{SessionFlags, SlowPathReason};
use crate::waits::WaitEnd;

/// The answers to a script's call that is not for this node.
const SCRIPT_CROSSES: &str = "ERR Script attempted to access keys that do not hash to the same slot";
const SCRIPT_WRITES_DOWN: &str =
    "ERR Script attempted to execute a write command while the cluster is down and readonly";
const SCRIPT_DOWN: &str = "ERR Script attempted to execute a command while the cluster is down";
const SCRIPT_AWAY: &str = "ERR Script attempted to access a non local key in a cluster node";

impl Worker {
    /// Takes up the newest routes.
    #[inline]
    pub(crate) fn refresh_routes(&mut self) {
        if let Some(routes) = &mut self.routes
            && let Some(node) = self.shared.cluster()
        {
            node.refresh(routes);
        }
    }

    /// Whether nothing but the cluster asks for checks, and the slot of this hash is served here in any case.
    #[inline]
    pub(crate) fn serves_slot(&self, hash: u64) -> bool {
        self.shared.slow_path_reasons.is_only(SlowPathReason::Cluster)
            && self.routes.as_ref().is_some_and(|routes| routes.is_served(slot_in(hash)))
    }

    /// The request is for this node.
    pub(crate) fn check_route(&self, connection: &Connection, entry: &Entry, args: &Args<'_>) -> Outcome {
        let Some(routes) = &self.routes else { return Ok(()) };
        if self.imports(connection, entry, args) {
            return Ok(());
        }
        let queue = executed(connection, entry);
        self.route(routes, connection, entry, args, queue)
            .map_err(|why| self.redirection_error(routes, connection, why))
    }

    /// The same once the keys are locked: only now is it sure which keys of a slot under way are there; and
    /// the routes may be others, if the gate was waited for. `transaction` is what EXEC runs.
    pub(crate) fn check_locked_route(
        &self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        transaction: Option<&Transaction>,
    ) -> Outcome {
        let is_sure = |routes: &Routes| !routes.has_open_slots() && !self.keys.has_all_shards();
        match &self.routes {
            Some(routes) if !is_sure(routes) && !self.imports(connection, entry, args) => self
                .route(routes, connection, entry, args, transaction)
                .map_err(|why| self.redirection_error(routes, connection, why)),
            _ => Ok(()),
        }
    }

    /// Whether a request brings a key of another node's slot, which comes here by this connection.
    fn imports(&self, connection: &Connection, entry: &Entry, args: &Args<'_>) -> bool {
        connection.session.flags.has(SessionFlags::IMPORTS_SLOTS)
            && slot_of_keys(entry, args).is_some_and(|slot| self.shared.engine.hidden.has(slot))
    }

    fn redirection_error(&self, routes: &Routes, connection: &Connection, why: Redirect) -> Error {
        Error::Redirect(routes.text(why, self.cluster_client(connection), self.config()))
    }

    /// How a client came, which decides where it is sent.
    pub(crate) fn cluster_client(&self, connection: &Connection) -> Client {
        let (local, tls_port) = (&connection.info.local, self.config().tls_port);
        Client {
            has_tls: tls_port != 0 && local.rsplit(':').next() == Some(tls_port.to_string().as_str()),
            is_ipv6: local.starts_with('['),
        }
    }

    /// Whether a command runs a script that does not promise to write nothing, though it could. Of one that
    /// says nothing of itself it is not known.
    fn runs_what_may_write(&self, entry: &Entry, args: &Args<'_>) -> bool {
        let flags = flags_of(self.shared, entry, args);
        flags.is_some_and(|flags| !flags.has(ScriptFlags::NO_WRITES) && !flags.has(ScriptFlags::COMPATIBLE))
    }

    fn route(
        &self,
        routes: &Routes,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        transaction: Option<&Transaction>,
    ) -> Result<(), Redirect> {
        let flags = connection.session.flags;
        let mut wanted = Wanted {
            is_asking: flags.has(SessionFlags::ASKING) || entry.spec.flags.has(Flags::ASKING),
            is_readonly: flags.has(SessionFlags::READS_REPLICA),
            moves_keys: entry.spec.flags.has(Flags::MOVES_KEYS),
            writes: entry.spec.flags.has(Flags::WRITE),
            ..Wanted::default()
        };
        let mut first: Option<Vec<u8>> = None;
        match transaction {
            None => {
                wanted.writes |= self.runs_what_may_write(entry, args);
                let db = connection.session.upcoming_db();
                self.want_keys(routes, db, entry, args, &mut first, &mut wanted);
            }
            Some(transaction) => {
                let mut db = connection.session.db;
                for (entry, args) in transaction.queue.iter() {
                    wanted.writes |=
                        entry.spec.flags.has(Flags::WRITE) || self.runs_what_may_write(entry, &args);
                    self.want_keys(routes, db, entry, &args, &mut first, &mut wanted);
                    db = self.database_after(db, entry, &args);
                }
            }
        }
        routes.decide(&wanted, self.config())
    }

    /// Adds one command's keys to the wanted ones.
    fn want_keys(
        &self,
        routes: &Routes,
        db: usize,
        entry: &Entry,
        args: &Args<'_>,
        first: &mut Option<Vec<u8>>,
        wanted: &mut Wanted,
    ) {
        let mut indexes = Vec::new();
        if entry.spec.keys.is_empty() || !entry.spec.key_indexes(args, &mut indexes) {
            return;
        }
        wanted.is_sharded_pubsub |= entry.spec.flags.has(Flags::PUBSUB);
        for name in indexes.into_iter().map(|index| args.at(index)) {
            let slot = slot_of(name);
            match (wanted.slot, &first) {
                (Some(other), _) if other != slot => wanted.crosses_slots = true,
                (_, Some(first)) => wanted.has_several |= first.as_slice() != name,
                _ => *first = Some(name.to_vec()),
            }
            wanted.slot.get_or_insert(slot);
            if routes.is_open(slot) && entry.spec.has_keys() {
                let is_there = self.has_key(db, &Key::new(name));
                *(if is_there { &mut wanted.existing } else { &mut wanted.missing }) += 1;
            }
        }
    }

    /// Whether a key is there, its shard locked by this thread or not.
    fn has_key(&self, db: usize, key: &Key<'_>) -> bool {
        let is_there = |db: &martlet_keyspace::Db| {
            let expiry_ms = db.get(key).map(|entry| entry.expiry_ms());
            expiry_ms.is_some_and(|expiry_ms| expiry_ms.is_none_or(|at_ms| at_ms > self.now_ms))
        };
        if self.keys.covers(key.shard()) {
            return is_there(self.keys.shard(key.shard()).keys.db(db));
        }
        loop {
            // The holder of the shard waits for nothing, and unlocks it soon.
            match self.shared.engine.peek(key.hash, |shard| is_there(shard.db(db))) {
                Some(is_there) => return is_there,
                None => std::thread::yield_now(),
            }
        }
    }

    /// A script's call is for this node, and of the slot that the script began with (`slot`), unless it may
    /// cross slots.
    pub(crate) fn check_script_route(
        &self,
        connection: &Connection,
        entry: &Entry,
        args: &Args<'_>,
        may_cross_slots: bool,
        slot: &mut Option<u16>,
    ) -> Outcome {
        let Some(routes) = &self.routes else { return Ok(()) };
        if crate::runtime::request_flags::is_from_primary(connection) {
            return Ok(());
        }
        if let Err(why) = self.route(routes, connection, entry, args, None) {
            return Err(Error::Fixed(match why {
                Redirect::DownForWrites => SCRIPT_WRITES_DOWN,
                Redirect::Down => SCRIPT_DOWN,
                Redirect::CrossSlot => SCRIPT_CROSSES,
                _ => SCRIPT_AWAY,
            }));
        }
        let own = slot_of_keys(entry, args);
        if may_cross_slots || own.is_none() || *slot.get_or_insert(own.unwrap_or(0)) == own.unwrap_or(0) {
            return Ok(());
        }
        Err(Error::Fixed(SCRIPT_CROSSES))
    }

    /// Ends the waits of this thread's clients for keys that are another node's now.
    pub(crate) fn redirect_blocked(&mut self) {
        self.refresh_routes();
        let Some(routes) = self.routes.clone() else { return };
        let mut away = Vec::new();
        for connection in self.connections.iter() {
            let Some(Suspended::Blocked(blocked)) = &connection.suspended else { continue };
            let Wait::Keys(..) = blocked.block.wait else { continue };
            let flags = self.shared.registry.entries()[blocked.command].spec.flags;
            let is_reader =
                connection.session.flags.has(SessionFlags::READS_REPLICA) && !flags.has(Flags::WRITE);
            let slots = blocked.waiter.keys.iter().map(|name| slot_of(name));
            if let Some(why) = slots.filter_map(|slot| routes.lets_wait(slot, is_reader).err()).next() {
                away.push((connection.token, why));
            }
        }
        for (token, why) in away {
            let Some(mut connection) = self.take(token) else { continue };
            self.end_wait(&mut connection, WaitEnd::Redirected(why));
            self.finish(connection);
        }
    }

    /// The error that redirects a client.
    pub(crate) fn redirection(&self, connection: &Connection, why: Redirect) -> String {
        let routes = self.routes.as_ref();
        routes
            .map_or(String::new(), |routes| routes.text(why, self.cluster_client(connection), self.config()))
    }
}
