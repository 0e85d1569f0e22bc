//! Checks under load: what is read is what was written, and no increment of a hot key is lost.

use crate::cli::target;
use crate::control::{Control, error_text};
use crate::engine::{self, INTERRUPTED, Silent};
use crate::own::Job;
use crate::plan::Pacing;
use crate::workload;
use martlet_base::random::Random;
use martlet_client::resp::{self, Reply};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HOT_KEY: &str = "martlet:bench:hot";
/// Keys that one connection writes and reads in a verification; no other connection touches them.
const KEYS_PER_CONNECTION: usize = 200;
/// Connections of a verification, each with a thread of its own.
const MAX_VERIFY_CONNECTIONS: usize = 256;

/// N clients INCR one key; the final value must equal the sum. Gives the exit code.
pub fn hot_key(job: &Job<'_>) -> Result<i32, String> {
    let mut control = target::control(&job.target)?;
    let mut value = |command: &[&str]| -> Result<i64, String> {
        let reply = control.command(command).map_err(|e| e.to_string())?;
        if reply.is_error() { Err(error_text(&reply)) } else { Ok(reply.integer().unwrap_or(0)) }
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
    // A time-bound run would leave requests under way, whose increments nobody could count.
    if plan.requests == 0 {
        return Err("--hot-key needs a number of requests: give -n".into());
    }
    (plan.duration, plan.warmup) = (None, Duration::ZERO);
    let measured = job.measure(&plan, &mut Silent)?;
    let after = value(&["GET", HOT_KEY])?;
    let result = &measured.result;
    let report = crate::report::Report::of(job, &plan, &measured);
    print!("{}", report.text());
    println!(
        "{} clients, {:.1} INCR each, {:.1} ms; {:.0} increments/s",
        plan.connections,
        result.requests() as f64 / plan.connections as f64,
        result.elapsed.as_secs_f64() * 1e3,
        result.rate()
    );
    if let Some(info) = crate::cost::Meter::new(&job.target, None).info() {
        for name in [
            "instantaneous_ops_per_sec",
            "instantaneous_input_kbps",
            "instantaneous_output_kbps",
            "used_cpu_sys",
            "used_cpu_user",
        ] {
            println!("{name}: {}", crate::control::info_field(&info, name).unwrap_or("unknown"));
        }
    }
    report.write_files(&job.settings)?;
    let counted = after - before;
    let exact = counted == result.requests() as i64;
    println!(
        "sum: {} increments answered, value grew by {counted}: {}",
        result.requests(),
        if exact { "equal" } else { "NOT EQUAL" }
    );
    Ok(i32::from(!exact || crate::own::exit_code(&measured) != 0))
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

/// What one connection found.
#[derive(Default)]
struct Verified {
    writes: u64,
    reads: u64,
    wrong: u64,
    first: Option<String>,
}

/// One connection's part: batches of SET and GET on its own keys, in order, each reply compared.
fn verify_one(
    control: &mut Control,
    connection: usize,
    job: &Job<'_>,
    until: Instant,
    quota: u64,
) -> Result<Verified, String> {
    let settings = &job.settings;
    let mut random = Random::seeded(settings.seed.unwrap_or(1).wrapping_add(connection as u64));
    let mut versions = vec![0u32; KEYS_PER_CONNECTION];
    let (mut found, mut batch, mut expected) = (Verified::default(), Vec::new(), Vec::new());
    let size = settings.data_bytes.max(16);
    while Instant::now() < until && !INTERRUPTED.load(Ordering::Relaxed) && found.reads + found.writes < quota
    {
        batch.clear();
        expected.clear();
        for _ in 0..settings.pipeline {
            let key = random.below(KEYS_PER_CONNECTION as u64) as usize;
            let name = format!("martlet:verify:{connection}:{key}");
            let Some(version) = versions.get_mut(key) else { continue };
            if random.below(2) == 0 {
                *version += 1;
                let value = value_of(connection, key, *version, size);
                resp::encode_request(&[b"SET", name.as_bytes(), &value], &mut batch);
                expected.push((name, None));
            } else if *version > 0 {
                resp::encode_request(&[b"GET", name.as_bytes()], &mut batch);
                expected.push((name, Some(value_of(connection, key, *version, size))));
            }
        }
        control.write(&batch).map_err(|e| e.to_string())?;
        for (name, wanted) in &expected {
            let reply = control.read_reply().map_err(|e| format!("connection {connection}: {e}"))?;
            let right = match wanted {
                None => {
                    found.writes += 1;
                    reply == Reply::Simple(b"OK".to_vec())
                }
                Some(value) => {
                    found.reads += 1;
                    reply.text() == Some(value)
                }
            };
            if !right {
                found.wrong += 1;
                found.first.get_or_insert_with(|| {
                    let wanted =
                        wanted.as_ref().map_or("OK".into(), |w| String::from_utf8_lossy(w).into_owned());
                    format!("{name}: expected {wanted:.60}, got {:.80}", format!("{reply:?}"))
                });
            }
        }
    }
    Ok(found)
}

/// Reads and writes on disjoint keys, every reply compared. Gives the exit code.
pub fn verify(job: &Job<'_>) -> Result<i32, String> {
    let settings = &job.settings;
    let connections = settings.clients.min(MAX_VERIFY_CONNECTIONS);
    let time = settings.duration.unwrap_or(if settings.requests.is_some() {
        Duration::from_secs(86_400)
    } else {
        Duration::from_secs(10)
    });
    let quota = settings.requests.map_or(u64::MAX, |n| n.div_ceil(connections as u64));
    let mut controls =
        (0..connections).map(|_| target::control(&job.target)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let outcomes: Vec<Result<Verified, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = controls
            .iter_mut()
            .enumerate()
            .map(|(n, control)| scope.spawn(move || verify_one(control, n, job, start + time, quota)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let (mut total, mut broken) = (Verified::default(), None);
    for outcome in outcomes {
        match outcome {
            Ok(one) => {
                total.writes += one.writes;
                total.reads += one.reads;
                total.wrong += one.wrong;
                total.first = total.first.or(one.first);
            }
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    println!(
        "verified {} writes and {} reads over {connections} connections in {:.1} s: {} wrong",
        total.writes,
        total.reads,
        start.elapsed().as_secs_f64(),
        total.wrong
    );
    if let Some(first) = &total.first {
        println!("first wrong reply: {first}");
    }
    if let Some(error) = &broken {
        println!("PARTIAL RESULT: {error}");
    }
    Ok(i32::from(total.wrong > 0 || broken.is_some() || engine::INTERRUPTED.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_their_key_and_version() {
        let a = value_of(1, 2, 3, 64);
        assert_eq!(a.len(), 64);
        assert!(a.starts_with(b"1:2:3:"));
        assert_ne!(a, value_of(1, 2, 4, 64));
    }
}
