//! Checks under load: every read returns the last write, and no increment of a hot key is lost.

use crate::cli::options::Settings;
use crate::cli::target;
use crate::control::{Control, plain_error, reply_text};
use crate::cost::Meter;
use crate::engine::{self, CommandResult, INTERRUPTED, RunResult, Silent};
use crate::job::{Job, Measured, exit_code};
use crate::plan::Pacing;
use crate::report::{Check, Report};
use crate::workload;
use crate::{errln, out, outln};
use martlet_base::random::Random;
use martlet_client::resp::{self, Reply};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HOT_KEY: &str = "martlet:bench:hot";
/// Keys that one connection writes and reads in a verification; no other connection touches them.
const KEYS_PER_CONNECTION: usize = 200;
/// Connections of a verification, each with its own thread.
const MAX_VERIFY_CONNECTIONS: usize = 256;

/// Whether the sum is right; `None` where that is unknown: a run that broke off leaves increments under way,
/// which the server may have done.
fn sum_verdict(check: &Check, is_cut: bool) -> Option<bool> {
    let is_more = i64::try_from(check.expected).is_ok_and(|answered| check.found > answered);
    if is_cut && is_more { None } else { Some(check.is_right()) }
}

/// The finding of a hot key's sum, and whether it is known to be right.
fn sum_check(answered: u64, growth: i64, is_cut: bool) -> (Check, bool) {
    let mut check = Check { kind: "hot-key".into(), expected: answered, found: growth, ..Check::default() };
    let right = sum_verdict(&check, is_cut);
    let finding = match right {
        Some(true) => "equal",
        Some(false) => "NOT EQUAL",
        None => "NOT CHECKED, as the run broke off with increments under way",
    };
    check.verdict = format!("sum: {answered} increments answered, value grew by {growth}: {finding}");
    (check, right == Some(true))
}

/// Prints the server's own figures of its load.
fn show_load(job: &Job) {
    let Some(info) = Meter::new(&job.target, None).info() else { return };
    for name in [
        "instantaneous_ops_per_sec",
        "instantaneous_input_kbps",
        "instantaneous_output_kbps",
        "used_cpu_sys",
        "used_cpu_user",
    ] {
        outln!("{name}: {}", crate::control::info_field(&info, name).unwrap_or("unknown"));
    }
}

/// N clients INCR one key; the final value must equal the sum. Gives the exit code.
pub fn hot_key(job: &Job) -> Result<i32, String> {
    let slot = usize::from(martlet_client::slot::slot_of(HOT_KEY.as_bytes()));
    let holder = job.target.nodes.iter().find(|node| node.slots.get(slot) == Some(&true));
    let mut control = match holder {
        Some(node) => target::control_at(&job.target, &node.address)?,
        None => target::control(&job.target)?,
    };
    let mut value = |command: &[&str]| -> Result<i64, String> {
        let reply = control.command(command).map_err(|e| e.to_string())?;
        if reply.is_error() {
            Err(engine::with_advice(&reply_text(&reply), false))
        } else {
            Ok(reply.integer().unwrap_or(0))
        }
    };
    let before = value(&["GET", HOT_KEY])?;
    let mut plan = job.plan(&job.target)?;
    plan.workload = workload::from_templates(&[format!("INCR {HOT_KEY}")])?;
    if job.settings.rate.is_none() {
        plan.pacing = Pacing::Closed;
    }
    if job.settings.requests.is_none() && job.settings.duration.is_none() {
        (plan.requests, plan.duration) = (100 * plan.connections as u64, None);
    }
    // A time-bound run would leave requests under way, whose increments could not be counted.
    if plan.requests == 0 {
        return Err("--hot-key needs a number of requests: give -n".into());
    }
    (plan.duration, plan.warmup) = (None, Duration::ZERO);
    let measured = job.measure(&plan, &mut Silent)?;
    let result = &measured.result;
    let mut report = Report::of(&plan, &measured);
    let after = match value(&["GET", HOT_KEY]) {
        Ok(after) => after,
        Err(error) => {
            out!("{}", report.text());
            errln!("the sum cannot be checked: {error}");
            report.partial.get_or_insert(error);
            return report.write_files(&job.settings).map(|()| 1);
        }
    };
    out!("{}", report.text());
    outln!(
        "{} clients, {:.1} INCR each, {:.1} ms; {:.0} increments/s",
        plan.connections,
        result.requests() as f64 / plan.connections as f64,
        result.elapsed.as_secs_f64() * 1e3,
        result.rate()
    );
    show_load(job);
    let is_cut = INTERRUPTED.load(Ordering::Relaxed) || result.lost > 0;
    let (check, is_equal) = sum_check(result.requests(), after - before, is_cut);
    out!("{}", check.text());
    let code = i32::from(!is_equal || exit_code(&measured) != 0);
    report.check = Some(check);
    report.write_files(&job.settings)?;
    Ok(code)
}

/// The value of a key's version: it names both, and is padded to the size by a pattern of them.
fn value_of(connection: usize, key: usize, version: u32, size: usize) -> Vec<u8> {
    let mut value = format!("{connection}:{key}:{version}:").into_bytes();
    let mut state = (version ^ (key as u32).wrapping_mul(0x9E37_79B9)) | 1;
    while value.len() < size {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        value.push(b'a' + (state >> 24) as u8 % 26);
    }
    value
}

/// Versions of one key.
#[derive(Clone, Copy, Default)]
struct Version {
    /// The last that was sent.
    sent: u32,
    /// The last that the server took; 0 if none.
    written: u32,
}

/// Findings of one connection.
#[derive(Default)]
struct Verified {
    /// Writes, then reads: answered as they must be.
    commands: [CommandResult; 2],
    wrong: u64,
    first: Option<String>,
    /// Bytes sent and received.
    bytes: (u64, u64),
    /// Why it ended early.
    broken: Option<String>,
}

impl Verified {
    fn add(&mut self, other: Verified) {
        for (own, other) in self.commands.iter_mut().zip(&other.commands) {
            own.latencies.add(&other.latencies);
            own.errors += other.errors;
        }
        self.wrong += other.wrong;
        self.bytes = (self.bytes.0 + other.bytes.0, self.bytes.1 + other.bytes.1);
        self.first = self.first.take().or(other.first);
        self.broken = self.broken.take().or(other.broken);
    }

    fn replies(&self) -> u64 {
        self.commands.iter().map(|c| c.latencies.count()).sum::<u64>() + self.wrong
    }
}

/// One connection of a verification.
struct Verifier<'a> {
    control: Control,
    number: usize,
    /// A hash tag that keeps its keys on its node, in cluster mode; else empty.
    tag: String,
    settings: &'a Settings,
    until: Instant,
    quota: u64,
}

impl Verifier<'_> {
    /// Batches of SET and GET on the connection's own keys, in order, each reply compared.
    fn run(mut self) -> Verified {
        let mut random = Random::seeded(self.settings.seed.unwrap_or(1).wrapping_add(self.number as u64));
        let mut versions = vec![Version::default(); KEYS_PER_CONNECTION];
        let mut found = Verified::default();
        let received = self.control.received_bytes;
        while Instant::now() < self.until
            && !INTERRUPTED.load(Ordering::Relaxed)
            && found.replies() < self.quota
        {
            if let Err(error) = self.batch(&mut random, &mut versions, &mut found) {
                found.broken = Some(format!("connection {}: {error}", self.number));
                break;
            }
        }
        found.bytes.1 = self.control.received_bytes - received;
        found
    }

    fn batch(
        &mut self,
        random: &mut Random,
        versions: &mut [Version],
        found: &mut Verified,
    ) -> Result<(), String> {
        let size = self.settings.data_bytes.max(16);
        let (mut batch, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..self.settings.pipeline {
            let key = random.below(KEYS_PER_CONNECTION as u64) as usize;
            let name = format!("martlet:verify:{}{}:{key}", self.tag, self.number);
            let Some(version) = versions.get_mut(key) else { continue };
            if random.below(2) == 0 {
                version.sent += 1;
                let value = value_of(self.number, key, version.sent, size);
                resp::encode_request(&[b"SET", name.as_bytes(), &value], &mut batch);
                expected.push((name, key, Some(version.sent)));
            } else if version.sent > 0 {
                resp::encode_request(&[b"GET", name.as_bytes()], &mut batch);
                expected.push((name, key, None));
            }
        }
        found.bytes.0 += batch.len() as u64;
        let sent = Instant::now();
        self.control.write(&batch).map_err(|e| plain_error(&e))?;
        for (name, key, sent_version) in &expected {
            let reply = self.control.read_reply().map_err(|e| plain_error(&e))?;
            let Some(version) = versions.get_mut(*key) else { continue };
            let wanted = match sent_version {
                Some(_) => b"OK".to_vec(),
                None => value_of(self.number, *key, version.written, size),
            };
            let right = match sent_version {
                Some(sent) => {
                    let done = reply == Reply::Simple(wanted.clone());
                    version.written = if done { *sent } else { version.written };
                    done
                }
                // No write was taken: the key may be there from before.
                None => version.written == 0 || reply.text() == Some(&wanted),
            };
            let [writes, reads] = &mut found.commands;
            let command = if sent_version.is_some() { writes } else { reads };
            if right {
                command.latencies.record(sent.elapsed().as_nanos() as u64, 1);
                continue;
            }
            command.errors += u64::from(reply.is_error());
            found.wrong += 1;
            found.first.get_or_insert_with(|| {
                format!(
                    "{name}: expected {:.60}, got {:.160}",
                    String::from_utf8_lossy(&wanted),
                    engine::with_advice(&reply_text(&reply), false)
                )
            });
        }
        Ok(())
    }
}

/// The connections of a verification: spread over a cluster's nodes, each with keys that its node holds.
fn verifiers(job: &Job, connections: usize) -> Result<Vec<Verifier<'_>>, String> {
    let settings = &job.settings;
    let time = settings.duration.unwrap_or(match settings.requests {
        Some(_) => Duration::from_secs(86_400),
        None => Duration::from_secs(10),
    });
    let quota = settings.requests.map_or(u64::MAX, |n| n.div_ceil(connections as u64));
    let mut verifiers = Vec::with_capacity(connections);
    for number in 0..connections {
        let node = job.target.nodes.get(number % job.target.nodes.len().max(1)).ok_or("no server")?;
        let tag = node.tags.first().map(|tag| format!("{{{}}}", String::from_utf8_lossy(tag)));
        verifiers.push(Verifier {
            control: target::control_at(&job.target, &node.address)?,
            number,
            tag: tag.unwrap_or_default(),
            settings,
            until: Instant::now(),
            quota,
        });
    }
    let until = Instant::now() + time;
    verifiers.iter_mut().for_each(|verifier| verifier.until = until);
    Ok(verifiers)
}

/// Reads and writes on disjoint keys, every reply compared. Gives the exit code.
pub fn verify(job: &Job) -> Result<i32, String> {
    let connections = job.settings.clients;
    if connections > MAX_VERIFY_CONNECTIONS {
        return Err(format!(
            "--verify: -c {connections} is more than {MAX_VERIFY_CONNECTIONS}: each has a thread"
        ));
    }
    let mut plan = job.plan(&job.target)?;
    (plan.threads, plan.route) = (connections, false);
    let meter = Meter::new(&job.target, job.settings.server_pid);
    let (environment, verifiers) = (meter.environment(), verifiers(job, connections)?);
    let before = meter.read();
    let (start, cpu_before) = (Instant::now(), engine::own_cpu());
    let mut total = Verified::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = verifiers.into_iter().map(|one| scope.spawn(move || one.run())).collect();
        for thread in threads {
            total.add(thread.join().unwrap_or_else(|_| Verified {
                broken: Some("a thread panicked".into()),
                ..Verified::default()
            }));
        }
    });
    let cpu = engine::own_cpu();
    let result = result_of(&mut total, start.elapsed(), (cpu.0 - cpu_before.0, cpu.1 - cpu_before.1));
    let cost = before.zip(meter.read()).map(|(before, after)| meter.cost(before, after, &result));
    let mut report = Report::of(&plan, &Measured { result, cost, warning: None, environment });
    let [writes, reads] = &total.commands;
    let verdict = format!(
        "verified {} writes and {} reads over {connections} connections in {:.1} s: {} wrong",
        writes.latencies.count(),
        reads.latencies.count(),
        report.elapsed_s,
        total.wrong
    );
    let check = Check {
        kind: "verify".into(),
        expected: total.replies(),
        found: (total.replies() - total.wrong) as i64,
        first_wrong: total.first.clone(),
        verdict,
    };
    out!("{}{}", report.text(), check.text());
    let code = i32::from(!check.is_right() || report.partial.is_some() || report.requests == 0);
    report.check = Some(check);
    report.write_files(&job.settings)?;
    Ok(code)
}

/// The run's figures in the form of any other run.
fn result_of(total: &mut Verified, elapsed: Duration, client_cpu: (Duration, Duration)) -> RunResult {
    for (command, name) in total.commands.iter_mut().zip(["SET", "GET"]) {
        command.name = name.into();
    }
    RunResult {
        commands: total.commands.to_vec(),
        elapsed,
        sent_bytes: total.bytes.0,
        received_bytes: total.bytes.1,
        client_cpu,
        partial: engine::interruption().or(total.broken.take()),
        io: "blocking",
        ..RunResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_wrong_only_where_nothing_under_way_can_explain_it() {
        let check = |found| Check { expected: 100, found, ..Check::default() };
        for (found, whole, cut) in
            [(100, Some(true), Some(true)), (99, Some(false), Some(false)), (103, Some(false), None)]
        {
            assert_eq!((sum_verdict(&check(found), false), sum_verdict(&check(found), true)), (whole, cut));
        }
    }

    #[test]
    fn values_name_their_key_and_version() {
        let a = value_of(1, 2, 3, 64);
        assert_eq!(a.len(), 64);
        assert!(a.starts_with(b"1:2:3:"));
        assert_ne!(a, value_of(1, 2, 4, 64));
    }
}
