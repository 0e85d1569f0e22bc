//! An instance as a map of fields: what SENTINEL MASTER, REPLICAS and SENTINELS answer.

use martlet_protocol::reply::Reply;

use super::core::Core;
use crate::instance::{Flags, Instance, InstanceId, Role};

/// The fields so far.
struct Fields<'a> {
    reply: &'a mut Reply,
    count: usize,
}

impl Fields<'_> {
    fn text(&mut self, name: &str, value: &str) {
        self.reply.bulk(name.as_bytes());
        self.reply.bulk(value.as_bytes());
        self.count += 1;
    }

    fn int(&mut self, name: &str, value: i64) {
        self.reply.bulk(name.as_bytes());
        self.reply.bulk_int(value);
        self.count += 1;
    }
}

/// Writes several; replicas that are not to be announced are left out.
pub(super) fn write_all(core: &Core, ids: &[InstanceId], reply: &mut Reply) {
    let place = reply.defer();
    let instances = ids.iter().filter_map(|id| core.sentinel.instance(*id));
    let told = instances.filter(|one| one.role != Role::Replica || one.reported.is_announced);
    let count = told.map(|instance| write(core, instance, reply)).count();
    reply.close_array(place, count);
}

/// Writes one.
pub(super) fn write(core: &Core, instance: &Instance, reply: &mut Reply) {
    let place = reply.defer();
    let mut fields = Fields { reply, count: 0 };
    common(core, instance, &mut fields);
    if instance.role != Role::Sentinel {
        reported(core, instance, &mut fields);
    }
    match instance.role {
        Role::Primary => primary(instance, &mut fields),
        Role::Replica => replica(instance, &mut fields),
        Role::Sentinel => {
            fields.int("last-hello-message", core.now_ms - instance.hello_ms);
            fields.text("voted-leader", instance.vote.leader.as_deref().unwrap_or("?"));
            fields.int("voted-leader-epoch", instance.vote.epoch as i64);
        }
    }
    let count = fields.count;
    reply.close_map(place, count);
}

fn common(core: &Core, instance: &Instance, fields: &mut Fields<'_>) {
    let (link, now_ms) = (core.sentinel.link(instance), core.now_ms);
    fields.text("name", &instance.name);
    fields.text("ip", core.sentinel.announced(&instance.address));
    fields.int("port", i64::from(instance.address.port));
    fields.text("runid", instance.run_id.as_deref().unwrap_or(""));
    fields.text("flags", &instance.flags.text(instance.role, link.is_disconnected));
    fields.int("link-pending-commands", link.pending.len() as i64);
    fields.int("link-refcount", link.users as i64);
    if instance.flags.any(Flags::FAILOVER_IN_PROGRESS) {
        fields.text("failover-state", instance.failover.state.word());
    }
    fields.int("last-ping-sent", link.active_ping_ms.map_or(0, |sent_ms| now_ms - sent_ms));
    fields.int("last-ok-ping-reply", now_ms - link.available_ms);
    fields.int("last-ping-reply", now_ms - link.last_pong_ms);
    let downs = [
        (Flags::SUBJECTIVELY_DOWN, "s-down-time", instance.subjectively_down_ms),
        (Flags::OBJECTIVELY_DOWN, "o-down-time", instance.objectively_down_ms),
    ];
    for (flag, name, since_ms) in downs {
        if let Some(since_ms) = since_ms.filter(|_| instance.flags.any(flag)) {
            fields.int(name, now_ms - since_ms);
        }
    }
    fields.int("down-after-milliseconds", instance.down_after_ms);
}

fn reported(core: &Core, instance: &Instance, fields: &mut Fields<'_>) {
    let reported = &instance.reported;
    fields.int("info-refresh", reported.refreshed_ms.map_or(0, |at_ms| core.now_ms - at_ms));
    let role = if reported.role == Some(Role::Primary) { "master" } else { "slave" };
    fields.text("role-reported", role);
    fields.int("role-reported-time", core.now_ms - reported.role_since_ms);
}

fn primary(instance: &Instance, fields: &mut Fields<'_>) {
    let settings = &instance.settings;
    fields.int("config-epoch", instance.config_epoch as i64);
    fields.int("num-slaves", instance.replicas.len() as i64);
    fields.int("num-other-sentinels", instance.sentinels.len() as i64);
    fields.int("quorum", i64::from(settings.quorum));
    fields.int("failover-timeout", settings.failover_timeout_ms);
    fields.int("parallel-syncs", settings.parallel_syncs);
    let scripts = [
        ("notification-script", &settings.notification_script),
        ("client-reconfig-script", &settings.client_reconfig_script),
    ];
    for (name, script) in scripts {
        if let Some(script) = script {
            fields.text(name, script);
        }
    }
}

fn replica(instance: &Instance, fields: &mut Fields<'_>) {
    let reported = &instance.reported;
    fields.int("master-link-down-time", reported.link_down_ms);
    fields.text("master-link-status", if reported.is_link_up { "ok" } else { "err" });
    fields.text("master-host", reported.primary_host.as_deref().unwrap_or("?"));
    fields.int("master-port", reported.primary_port);
    fields.int("slave-priority", reported.priority);
    fields.int("slave-repl-offset", reported.offset as i64);
    fields.int("replica-announced", i64::from(reported.is_announced));
}
