//! SENTINEL: the monitored primaries, and requests of operators and other Sentinels.

use martlet_base::number::parse_i64;
use martlet_spec::{Error, Flags, Group, Outcome, command, container};

use super::{Call, Handler, SentinelCommand, instance_reply, settings, text};
use crate::instance::InstanceId;
use crate::machine::{AdminError, SimulatedFailures};
use crate::scripts::JobState;

/// The family.
pub static COMMANDS: &[&SentinelCommand] = &[&SENTINEL];

static SENTINEL: SentinelCommand = SentinelCommand {
    spec: container::<Handler>("sentinel", -2, &[]).flags(Flags::ADMIN).spec,
    ..container(
        "sentinel",
        -2,
        &[
            &CKQUORUM,
            &CONFIG,
            &DEBUG,
            &FAILOVER,
            &FLUSHCONFIG,
            &GET_ADDRESS,
            &GET_PRIMARY_ADDRESS,
            &HELP,
            &INFO_CACHE,
            &IS_DOWN,
            &IS_PRIMARY_DOWN,
            &MASTER,
            &MASTERS,
            &MONITOR,
            &MYID,
            &PENDING_SCRIPTS,
            &PRIMARIES,
            &PRIMARY,
            &REMOVE,
            &REPLICAS,
            &RESET,
            &SENTINELS,
            &SET,
            &SIMULATE_FAILURE,
            &SLAVES,
        ],
    )
};

const fn entry(name: &'static str, arity: i32, handler: Handler, summary: &'static str) -> SentinelCommand {
    command(name, arity, handler).flags(Flags::ADMIN).doc(Group::Server, "2.8.4", "O(1)", summary)
}

impl From<AdminError> for Error {
    fn from(error: AdminError) -> Error {
        Error::Text(error.to_string())
    }
}

static CKQUORUM: SentinelCommand =
    entry("sentinel|ckquorum", 3, ckquorum, "Checks whether enough Sentinels are up for a failover.");

fn ckquorum(call: &mut Call<'_>) -> Outcome {
    let quorum = call.core.sentinel.check_quorum(call.arg(2))?;
    let mut missing = Vec::new();
    if !quorum.has_quorum {
        missing.push("Not enough available Sentinels to reach the specified quorum for this master");
    }
    if !quorum.has_majority {
        missing.push("Not enough available Sentinels to reach the majority and authorize a failover");
    }
    let usable = quorum.usable;
    if missing.is_empty() {
        let rest = "usable Sentinels. Quorum and failover authorization can be reached";
        call.reply.simple(&format!("OK {usable} {rest}"));
        return Ok(());
    }
    Err(Error::Text(format!("NOQUORUM {usable} usable Sentinels. {}", missing.join(". "))))
}

static CONFIG: SentinelCommand =
    entry("sentinel|config", -4, config, "Returns or sets the Sentinel's parameters.");

fn config(call: &mut Call<'_>) -> Outcome {
    match call.arg(2).to_ascii_lowercase().as_slice() {
        b"set" if call.argc() >= 5 => settings::set(call),
        b"get" => settings::get(call),
        _ => Err(Error::Fixed(
            "ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> <value> [<param> <value> ...] are supported.",
        )),
    }
}

static DEBUG: SentinelCommand = entry("sentinel|debug", -2, debug, "Returns or sets periods and timeouts.");

fn debug(call: &mut Call<'_>) -> Outcome {
    let timing = &mut call.core.sentinel.timing;
    if call.args.len() == 2 {
        let fields = timing.fields();
        call.reply.map(fields.len());
        for (name, value) in fields {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk_int(*value);
        }
        return Ok(());
    }
    for at in (2..call.args.len()).step_by(2) {
        let name = call.args.at(at);
        let field = timing.field(name).zip(call.args.get(at + 1));
        let (field, value) = field.ok_or_else(|| {
            Error::quoting("ERR Unknown option or number of arguments for SENTINEL DEBUG '", name, "'")
        })?;
        *field = parse_i64(value).filter(|ms| (1..=i64::from(i32::MAX)).contains(ms)).ok_or_else(|| {
            Error::Text(format!("ERR Invalid argument '{}' for SENTINEL DEBUG '{}'", text(value), text(name)))
        })?;
    }
    call.reply.ok();
    Ok(())
}

static FAILOVER: SentinelCommand =
    entry("sentinel|failover", 3, failover, "Has a replica take the primary's place, without an election.");

fn failover(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.core.now_ms;
    call.core.sentinel.force_failover(now_ms, call.args.at(2))?;
    call.reply.ok();
    Ok(())
}

static FLUSHCONFIG: SentinelCommand =
    entry("sentinel|flushconfig", 2, flushconfig, "Writes the configuration file.");

fn flushconfig(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.core.now_ms;
    call.core.sentinel.flush_config(now_ms)?;
    call.reply.ok();
    Ok(())
}

const ADDRESS_SUMMARY: &str = "Answers where a primary is.";
static GET_ADDRESS: SentinelCommand =
    entry("sentinel|get-master-addr-by-name", 3, get_address, ADDRESS_SUMMARY);
static GET_PRIMARY_ADDRESS: SentinelCommand =
    entry("sentinel|get-primary-addr-by-name", 3, get_address, ADDRESS_SUMMARY);

fn get_address(call: &mut Call<'_>) -> Outcome {
    let sentinel = &call.core.sentinel;
    match sentinel.find(call.args.at(2)) {
        Err(_) => call.reply.null_array(),
        Ok((id, _)) => {
            let address = sentinel.current_address(id);
            call.reply.array(2);
            call.reply.bulk(sentinel.announced(address).as_bytes());
            call.reply.bulk_int(i64::from(address.port));
        }
    }
    Ok(())
}

static HELP: SentinelCommand = command("sentinel|help", 2, help as Handler)
    .flags(Flags::LOADING.with(Flags::STALE))
    .doc(Group::Server, "6.2.0", "O(1)", "Lists the subcommands.");

fn help(call: &mut Call<'_>) -> Outcome {
    super::write_help(call, "SENTINEL")
}

static INFO_CACHE: SentinelCommand =
    entry("sentinel|info-cache", -3, info_cache, "Answers the last INFO of primaries and their replicas.");

fn info_cache(call: &mut Call<'_>) -> Outcome {
    let sentinel = &call.core.sentinel;
    let mut ids: Vec<InstanceId> = Vec::new();
    for name in call.args.iter().skip(2) {
        if let Ok((id, _)) = sentinel.find(name)
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    call.reply.array(ids.len() * 2);
    for primary in ids.iter().filter_map(|id| sentinel.instance(*id)) {
        call.reply.bulk(primary.name.as_bytes());
        let replicas = primary.replicas.values().filter_map(|id| sentinel.instance(*id));
        call.reply.array(1 + primary.replicas.len());
        for one in std::iter::once(primary).chain(replicas) {
            call.reply.array(2);
            call.reply.int(one.reported.refreshed_ms.map_or(0, |at_ms| call.core.now_ms - at_ms));
            call.reply.bulk_or_null(one.reported.text.as_deref());
        }
    }
    Ok(())
}

const DOWN_SUMMARY: &str = "Answers whether a primary is down from here, and this Sentinel's vote.";
static IS_DOWN: SentinelCommand = entry("sentinel|is-master-down-by-addr", 6, is_down, DOWN_SUMMARY);
static IS_PRIMARY_DOWN: SentinelCommand = entry("sentinel|is-primary-down-by-addr", 6, is_down, DOWN_SUMMARY);

fn is_down(call: &mut Call<'_>) -> Outcome {
    let port = parse_i64(call.arg(3)).ok_or(Error::NotInteger)?;
    let epoch = parse_i64(call.arg(4)).ok_or(Error::NotInteger)?;
    let (host, candidate) = (text(call.arg(2)), text(call.arg(5)));
    // No Sentinel asks for a vote in an epoch below 0; an epoch that has no successor is refused.
    let epoch =
        u64::try_from(epoch).ok().filter(|epoch| *epoch < i64::MAX as u64).ok_or(Error::OutOfRange)?;
    let now_ms = call.core.now_ms;
    let (is_down, vote) = call.core.sentinel.is_primary_down(now_ms, &host, port, epoch, &candidate);
    call.reply.array(3);
    call.reply.int(i64::from(is_down));
    call.reply.bulk(vote.leader.as_deref().unwrap_or("*").as_bytes());
    call.reply.int(vote.epoch as i64);
    Ok(())
}

const MASTER_SUMMARY: &str = "Returns the state of a primary.";
static MASTER: SentinelCommand = entry("sentinel|master", 3, master, MASTER_SUMMARY);
static PRIMARY: SentinelCommand = entry("sentinel|primary", 3, master, MASTER_SUMMARY);

fn master(call: &mut Call<'_>) -> Outcome {
    let core = &*call.core;
    let (_, primary) = core.sentinel.find(call.args.at(2))?;
    instance_reply::write(core, primary, call.reply);
    Ok(())
}

const MASTERS_SUMMARY: &str = "Returns the state of all primaries.";
static MASTERS: SentinelCommand = entry("sentinel|masters", 2, masters, MASTERS_SUMMARY);
static PRIMARIES: SentinelCommand = entry("sentinel|primaries", 2, masters, MASTERS_SUMMARY);

fn masters(call: &mut Call<'_>) -> Outcome {
    let ids: Vec<_> = call.core.sentinel.primaries().map(|(id, _)| id).collect();
    instance_reply::write_all(call.core, &ids, call.reply);
    Ok(())
}

static MONITOR: SentinelCommand = entry("sentinel|monitor", 6, monitor, "Begins to watch a primary.");

fn monitor(call: &mut Call<'_>) -> Outcome {
    let quorum = call.int(5, "ERR Invalid quorum")?;
    let port = call.int(4, "ERR Invalid port")?;
    let quorum = u32::try_from(quorum).ok().filter(|quorum| *quorum > 0);
    let quorum = quorum.ok_or(Error::Fixed("ERR Quorum must be 1 or greater."))?;
    let (now_ms, host) = (call.core.now_ms, text(call.arg(3)));
    call.core.sentinel.monitor(now_ms, call.args.at(2), &host, port, quorum)?;
    call.reply.ok();
    Ok(())
}

static MYID: SentinelCommand = entry("sentinel|myid", 2, myid, "Answers this Sentinel's id.");

fn myid(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(call.core.sentinel.id().as_bytes());
    Ok(())
}

static PENDING_SCRIPTS: SentinelCommand =
    entry("sentinel|pending-scripts", 2, pending_scripts, "Lists the scripts that wait or run.");

fn pending_scripts(call: &mut Call<'_>) -> Outcome {
    let (reply, now_ms) = (&mut *call.reply, call.core.now_ms);
    let jobs = call.core.sentinel.scripts().jobs();
    reply.array(jobs.len());
    for job in jobs {
        let (state, pid, timing, ms) = match job.state {
            JobState::Running { since_ms, pid, .. } => {
                ("running", pid.unwrap_or(0), "run-time", now_ms - since_ms)
            }
            JobState::Scheduled { not_before_ms } => {
                ("scheduled", 0, "run-delay", (not_before_ms - now_ms).max(0))
            }
        };
        reply.map(5);
        reply.bulk(b"argv");
        reply.array(job.argv.len());
        job.argv.iter().for_each(|word| reply.bulk(word.as_bytes()));
        reply.bulk(b"flags");
        reply.bulk(state.as_bytes());
        for (name, value) in [("pid", i64::from(pid)), (timing, ms), ("retry-num", i64::from(job.runs))] {
            reply.bulk(name.as_bytes());
            reply.bulk_int(value);
        }
    }
    Ok(())
}

static REMOVE: SentinelCommand = entry("sentinel|remove", 3, remove, "Ends to watch a primary.");

fn remove(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.core.now_ms;
    call.core.sentinel.unmonitor(now_ms, call.args.at(2))?;
    call.reply.ok();
    Ok(())
}

const REPLICAS_SUMMARY: &str = "Returns the state of a primary's replicas.";
static REPLICAS: SentinelCommand = entry("sentinel|replicas", 3, replicas, REPLICAS_SUMMARY);
static SLAVES: SentinelCommand =
    entry("sentinel|slaves", 3, replicas, REPLICAS_SUMMARY).deprecated("5.0.0", "`SENTINEL REPLICAS`");

fn replicas(call: &mut Call<'_>) -> Outcome {
    let (_, primary) = call.core.sentinel.find(call.args.at(2))?;
    let ids: Vec<_> = primary.replicas.values().copied().collect();
    instance_reply::write_all(call.core, &ids, call.reply);
    Ok(())
}

static SENTINELS: SentinelCommand =
    entry("sentinel|sentinels", 3, sentinels, "Returns the state of a primary's other Sentinels.");

fn sentinels(call: &mut Call<'_>) -> Outcome {
    let (_, primary) = call.core.sentinel.find(call.args.at(2))?;
    let ids: Vec<_> = primary.sentinels.values().copied().collect();
    instance_reply::write_all(call.core, &ids, call.reply);
    Ok(())
}

static RESET: SentinelCommand =
    entry("sentinel|reset", 3, reset, "Forgets the discovered state of primaries that match a pattern.");

fn reset(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.core.now_ms;
    let count = call.core.sentinel.reset_matching(now_ms, call.args.at(2));
    call.reply.count(count);
    Ok(())
}

static SET: SentinelCommand = entry("sentinel|set", -5, set, "Sets what holds for a primary.");

fn set(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.core.now_ms;
    let (id, _) = call.core.sentinel.find(call.args.at(2))?;
    let words: Vec<Vec<u8>> = call.args.iter().skip(3).map(<[u8]>::to_vec).collect();
    call.core.sentinel.set(now_ms, id, &words).map_err(|error| Error::Text(error.to_string()))?;
    call.reply.ok();
    Ok(())
}

static SIMULATE_FAILURE: SentinelCommand =
    entry("sentinel|simulate-failure", -3, simulate_failure, "Has the Sentinel crash in a failover.");

fn simulate_failure(call: &mut Call<'_>) -> Outcome {
    const AFTER_ELECTION: &[u8] = b"crash-after-election";
    const AFTER_PROMOTION: &[u8] = b"crash-after-promotion";
    let mut failures = SimulatedFailures::default();
    for word in call.args.iter().skip(2) {
        if word.eq_ignore_ascii_case(AFTER_ELECTION) {
            failures.after_election = true;
        } else if word.eq_ignore_ascii_case(AFTER_PROMOTION) {
            failures.after_promotion = true;
        } else if word.eq_ignore_ascii_case(b"help") {
            call.reply.array(2);
            call.reply.bulk(AFTER_ELECTION);
            call.reply.bulk(AFTER_PROMOTION);
            return Ok(());
        } else {
            return Err(Error::Fixed("ERR Unknown failure simulation specified"));
        }
    }
    let now_ms = call.core.now_ms;
    call.core.sentinel.simulate_failures(now_ms, failures);
    call.reply.ok();
    Ok(())
}
