//! Everything that Prometheus scrapes: all of INFO, counts and latencies of each command, the slow log,
//! latency events, the cluster's state and the configured limits.

mod names;
mod text;

use martlet_base::clock::monotonic;
use martlet_client::resp::Reply;

use crate::info::{Info, part, parts};
use crate::shown::lossy;
use crate::source::{Failure, Login, Source};
use names::{Kind, divisor, is_left_out, of_field};
use text::Metrics;

/// The commands whose replies the metrics are made of.
const ASKED: [&[&[u8]]; 9] = [
    &[b"INFO", b"EVERYTHING"],
    &[b"SLOWLOG", b"LEN"],
    &[b"SLOWLOG", b"GET", b"1"],
    &[b"LATENCY", b"LATEST"],
    &[b"LATENCY", b"HISTOGRAM"],
    // Shown as `config_…`; servers before Redis 7 take one parameter a request.
    &[b"CONFIG", b"GET", b"io-threads"],
    &[b"CONFIG", b"GET", b"maxclients"],
    &[b"CONFIG", b"GET", b"maxmemory"],
    &[b"CONFIG", b"GET", b"databases"],
];

/// All metrics as text. A server that cannot be asked is one that is not up; commands that the user may not
/// run are left out.
pub(crate) fn render(source: &Source, login: Option<&Login>) -> Result<String, Failure> {
    let begun = monotonic();
    let commands = ASKED.map(<[_]>::to_vec);
    let mut metrics = Metrics::default();
    let asked = match source.ask_periodically(login, 1, &commands) {
        Err(Failure::Unauthorized(why)) => return Err(Failure::Unauthorized(why)),
        Err(Failure::Unreachable(why) | Failure::Refused(why)) => Err(why),
        Ok(replies) => match replies.first() {
            Some(Reply::Error(text)) => Err(lossy(text)),
            _ => Ok(replies),
        },
    };
    let is_up = f64::from(u8::from(asked.is_ok()));
    metrics.add(Kind::Gauge, "up", "Whether the server answers", &[], is_up);
    let error = asked.as_ref().err().map_or("", |why| why.as_str());
    let help = "Whether the server could not be asked, and why";
    metrics.add(Kind::Gauge, "exporter_last_scrape_error", help, &[("err", error)], 1.0 - is_up);
    if let Ok(replies) = asked {
        let info = Info::parse(&lossy(replies.first().and_then(Reply::text).unwrap_or_default()));
        collect(&mut metrics, &info, &replies);
        if info.get("cluster_enabled") == Some("1") {
            // Other servers answer it with an error.
            let state = source.ask_periodically(login, 0, &[vec![b"CLUSTER", b"INFO"]]).unwrap_or_default();
            collect_cluster(&mut metrics, state.first());
        }
    }
    let help = "Seconds that asking the server took";
    let seconds = begun.elapsed().as_secs_f64();
    metrics.add(Kind::Gauge, "exporter_last_scrape_duration_seconds", help, &[], seconds);
    Ok(metrics.text())
}

/// Of the replies to [`ASKED`], the first of which is INFO.
fn collect(metrics: &mut Metrics, info: &Info, replies: &[Reply]) {
    let [_, slow_length, slowest, events, histograms, parameters @ ..] = replies else { return };
    collect_info(metrics, info);
    if let Some(length) = slow_length.integer() {
        metrics.add(Kind::Gauge, "slowlog_length", "Entries of the slow log", &[], length as f64);
    }
    if let Some(entry) = slowest.items().and_then(<[_]>::first).and_then(Reply::items) {
        let number = |at: usize| entry.get(at).and_then(Reply::integer).unwrap_or(0) as f64;
        metrics.add(Kind::Gauge, "slowlog_last_id", "The newest entry of the slow log", &[], number(0));
        let help = "Seconds that the newest slow command took";
        metrics.add(Kind::Gauge, "last_slow_execution_duration_seconds", help, &[], number(2) / 1e6);
    }
    for event in events.items().unwrap_or_default() {
        let Some([name, last, ms, ..]) = event.items() else { continue };
        let name = lossy(name.text().unwrap_or_default());
        let labels = [("event_name", name.as_str())];
        let (last, ms) = (last.integer().unwrap_or(0) as f64, ms.integer().unwrap_or(0) as f64);
        metrics.add(Kind::Gauge, "latency_spike_last", "When it last happened", &labels, last);
        let help = "Seconds that it took then";
        metrics.add(Kind::Gauge, "latency_spike_duration_seconds", help, &labels, ms / 1e3);
    }
    collect_histograms(metrics, histograms, info);
    for parameter in parameters {
        let words: Vec<String> = parameter.items().unwrap_or_default().iter().filter_map(text_of).collect();
        if let [name, value] = words.as_slice()
            && let Ok(value) = value.parse()
        {
            metrics.add(Kind::Gauge, &format!("config_{name}"), "", &[], value);
        }
    }
}

fn collect_cluster(metrics: &mut Metrics, state: Option<&Reply>) {
    let state = Info::parse(&lossy(state.and_then(Reply::text).unwrap_or_default()));
    let fields = state.sections().flat_map(|(_, fields)| fields);
    fields.for_each(|(name, value)| add_field(metrics, name, value));
}

fn text_of(reply: &Reply) -> Option<String> {
    reply.text().map(lossy)
}

fn collect_info(metrics: &mut Metrics, info: &Info) {
    for (section, fields) in info.sections() {
        for (name, value) in fields {
            match section {
                "commandstats" => add_command(metrics, name, value),
                "latencystats" => add_percentiles(metrics, name, value, info),
                "errorstats" => add_error(metrics, name, value),
                "keyspace" => add_database(metrics, name, value),
                "keysizes" => add_sizes(metrics, name, value),
                "threads" => add_thread(metrics, name, value),
                "cpu" => add_cpu(metrics, name, value),
                "replication" if add_link(metrics, name, value, info) => {}
                _ => add_field(metrics, name, value),
            }
        }
    }
    let field = |name| info.get(name).unwrap_or_default();
    let of_instance = [
        ("role", "role"),
        ("redis_version", "redis_version"),
        ("redis_build_id", "redis_build_id"),
        ("redis_mode", "redis_mode"),
        ("os", "os"),
        ("maxmemory_policy", "maxmemory_policy"),
        ("tcp_port", "tcp_port"),
        ("run_id", "run_id"),
        ("process_id", "process_id"),
        ("master_replid", "master_replid"),
        ("server_name", "server_name"),
        ("martlet_version", "martlet_version"),
    ];
    let labels = of_instance.map(|(label, name)| (label, field(name)));
    metrics.add(Kind::Gauge, "instance_info", "Name, version and mode of the server", &labels, 1.0);
    if field("role") == "slave" {
        let names = ["master_host", "master_port", "slave_read_only"];
        let labels = [("master_host", names[0]), ("master_port", names[1]), ("read_only", names[2])]
            .map(|(label, name)| (label, field(name)));
        metrics.add(Kind::Gauge, "slave_info", "Whose replica the server is", &labels, 1.0);
    }
    let uptime = field("uptime_in_seconds").parse::<f64>();
    if let (Ok(now), Ok(uptime)) = (field("server_time_usec").parse::<f64>(), uptime) {
        let help = "Unix time at which the server was started";
        metrics.add(Kind::Gauge, "start_time_seconds", help, &[], (now / 1e6 - uptime).round());
    }
}

/// A field of which nothing more is known: its value is a number, or says whether something went well.
fn add_field(metrics: &mut Metrics, name: &str, value: &str) {
    if is_left_out(name) {
        return;
    }
    let value = match value {
        "ok" | "true" | "up" => 1.0,
        "err" | "fail" | "false" | "down" => 0.0,
        // Floats may also spell "inf" and "nan", which no field means.
        _ => match value.trim_end_matches('%').parse::<f64>() {
            Ok(value) if value.is_finite() => value,
            _ => return,
        },
    };
    let (metric, kind) = of_field(name);
    metrics.add(kind, metric, "", &[], value / divisor(name));
}

fn add_command(metrics: &mut Metrics, name: &str, value: &str) {
    let Some(command) = name.strip_prefix("cmdstat_") else { return };
    let labels = [("cmd", command)];
    let counts = [
        ("calls", "commands_total", "Calls by command", 1.0),
        ("usec", "commands_duration_seconds_total", "Seconds spent by command", 1e6),
        ("rejected_calls", "commands_rejected_calls_total", "Calls that were refused before they ran", 1.0),
        ("failed_calls", "commands_failed_calls_total", "Calls that ran and failed", 1.0),
    ];
    for (of, metric, help, divisor) in counts {
        if let Some(count) = part(value, of) {
            metrics.add(Kind::Counter, metric, help, &labels, count / divisor);
        }
    }
}

fn add_percentiles(metrics: &mut Metrics, name: &str, value: &str, info: &Info) {
    let Some(command) = name.strip_prefix("latency_percentiles_usec_") else { return };
    // redis_exporter labels them by the percentile: 99.9.
    let quantiles: Vec<(f64, f64)> = parts(value)
        .filter_map(|(percentile, usec)| {
            Some((percentile.strip_prefix('p')?.parse().ok()?, usec.parse().ok()?))
        })
        .collect();
    let help = "Microseconds that the slowest share of a command's calls took";
    let sums = command_sums(info, command);
    metrics.add_summary("latency_percentiles_usec", help, ("cmd", command), &quantiles, sums);
}

/// How often a command ran, and for how many microseconds in all; with those of its subcommands.
fn command_sums(info: &Info, command: &str) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (name, value) in info.section("commandstats") {
        let rest = name.strip_prefix("cmdstat_").and_then(|name| name.strip_prefix(command));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|')) {
            sums.0 += part(value, "calls").unwrap_or(0.0);
            sums.1 += part(value, "usec").unwrap_or(0.0);
        }
    }
    sums
}

fn collect_histograms(metrics: &mut Metrics, histograms: &Reply, info: &Info) {
    for pair in histograms.items().unwrap_or_default().chunks_exact(2) {
        let [command, histogram] = pair else { continue };
        let Some(command) = text_of(command) else { continue };
        let Some([_, calls, _, buckets]) = histogram.items() else { continue };
        let numbers: Vec<f64> = buckets
            .items()
            .unwrap_or_default()
            .iter()
            .map(|number| number.integer().unwrap_or(0) as f64)
            .collect();
        let buckets: Vec<(f64, f64)> =
            numbers.as_chunks().0.iter().map(|[most, count]| (*most, *count)).collect();
        let help = "Microseconds that a command's calls took";
        let sums = (calls.integer().unwrap_or(0) as f64, command_sums(info, &command).1);
        metrics.add_histogram("commands_latencies_usec", help, ("cmd", &command), &buckets, sums);
    }
}

fn add_error(metrics: &mut Metrics, name: &str, value: &str) {
    if let Some(error) = name.strip_prefix("errorstat_")
        && let Some(count) = part(value, "count")
    {
        metrics.add(
            Kind::Counter,
            "errors_total",
            "Error replies by their first word",
            &[("err", error)],
            count,
        );
    }
}

fn add_database(metrics: &mut Metrics, name: &str, value: &str) {
    let fields = [
        ("keys", "db_keys", "Keys by database", 1.0),
        ("expires", "db_keys_expiring", "Keys with an expiry by database", 1.0),
        ("avg_ttl", "db_avg_ttl_seconds", "Mean seconds until they expire", 1e3),
        ("subexpiry", "db_keys_with_expiring_fields", "Hashes with fields that expire", 1.0),
    ];
    for (of, metric, help, divisor) in fields {
        if let Some(number) = part(value, of) {
            metrics.add(Kind::Gauge, metric, help, &[("db", name)], number / divisor);
        }
    }
}

/// `db0_distrib_strings_sizes:1=3,2=4`: the number of keys of a type in each size class, from the given size
/// up to twice that.
fn add_sizes(metrics: &mut Metrics, name: &str, value: &str) {
    let Some((database, rest)) = name.split_once("_distrib_") else { return };
    let Some((kind, unit)) = rest.rsplit_once('_') else { return };
    for (from, count) in parts(value) {
        if let Ok(count) = count.parse() {
            let labels = [("db", database), ("type", kind), ("unit", unit), ("from", from)];
            metrics.add(Kind::Gauge, "keys_by_size", "Keys by type and least size", &labels, count);
        }
    }
}

fn add_thread(metrics: &mut Metrics, name: &str, value: &str) {
    let Some(thread) = name.strip_prefix("io_thread_") else { return add_field(metrics, name, value) };
    for (of, number) in parts(value) {
        let (kind, suffix) = if of == "clients" { (Kind::Gauge, "") } else { (Kind::Counter, "_total") };
        if let Ok(number) = number.parse() {
            let metric = format!("io_thread_{of}{suffix}");
            metrics.add(kind, &metric, "By I/O thread", &[("thread", thread)], number);
        }
    }
}

fn add_cpu(metrics: &mut Metrics, name: &str, value: &str) {
    let (Some(thread), Ok(seconds)) = (name.strip_prefix("used_active_time_io_thread_"), value.parse())
    else {
        return add_field(metrics, name, value);
    };
    let (metric, help) = ("active_time_io_thread_seconds_total", "Seconds not spent asleep, by I/O thread");
    metrics.add(Kind::Counter, metric, help, &[("thread", thread)], seconds);
}

/// Fields about the links to replicas and to the primary, whose metrics bear these as labels.
fn add_link(metrics: &mut Metrics, name: &str, value: &str, info: &Info) -> bool {
    let field = |name| info.get(name).unwrap_or_default();
    if let Some(number) = name.strip_prefix("slave")
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        let find = |of| parts(value).find(|(part, _)| *part == of).map_or("", |(_, value)| value);
        let labels = [("slave_ip", find("ip")), ("slave_port", find("port")), ("slave_state", find("state"))];
        for (of, metric, help) in [
            ("offset", "connected_slave_offset_bytes", "Offset that the replica has acknowledged"),
            ("lag", "connected_slave_lag_seconds", "Since its last acknowledgement"),
        ] {
            if let Some(number) = part(value, of) {
                metrics.add(Kind::Gauge, metric, help, &labels, number);
            }
        }
        return true;
    }
    let (metric, value) = match (name, value) {
        ("master_link_status", status) => ("master_link_up", f64::from(u8::from(status == "up"))),
        ("master_last_io_seconds_ago" | "master_sync_in_progress" | "slave_repl_offset", number) => {
            (name, number.parse().unwrap_or(0.0))
        }
        _ => return false,
    };
    let labels = [("master_host", field("master_host")), ("master_port", field("master_port"))];
    metrics.add(Kind::Gauge, metric, "Of the link to the primary", &labels, value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn replies_become_metrics_under_the_names_that_boards_know() {
        let info = "# Server\r\nredis_version:8.0.0\r\nserver_time_usec:10000000\r\nuptime_in_seconds:4\r\ntcp_port:1\r\n\
            # Memory\r\nused_memory:7\r\nused_memory_human:7B\r\n# Threads\r\nio_thread_0:clients=1,reads=2\r\n\
            # Stats\r\nlatest_fork_usec:2000000\r\nevicted_keys:3\r\n# Replication\r\nrole:slave\r\nmaster_host:h\r\n\
            master_port:6379\r\nmaster_link_status:up\r\nslave_read_only:1\r\n\
            slave0:ip=1.2.3.4,port=5,state=online,offset=9,lag=1\r\n# Commandstats\r\n\
            cmdstat_config|get:calls=2,usec=30,usec_per_call=15.00,rejected_calls=0,failed_calls=1\r\n# Errorstats\r\n\
            errorstat_ERR:count=4\r\n# Latencystats\r\nlatency_percentiles_usec_config|get:p50=10.5,p99=20.5,p99.9=30.5\r\n\
            # Cluster\r\ncluster_enabled:1\r\n# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=1500,subexpiry=2\r\n\
            # Keysizes\r\ndb0_distrib_strings_sizes:1=3,2=4\r\n";
        let histogram = Reply::Array(vec![
            bulk("calls"),
            Reply::Int(2),
            bulk("histogram_usec"),
            Reply::Array([16, 1, 33, 2].map(Reply::Int).to_vec()),
        ]);
        let replies = [
            bulk(info),
            Reply::Int(6),
            Reply::Array(vec![Reply::Array([8, 1, 2_500_000].map(Reply::Int).to_vec())]),
            Reply::Array(vec![Reply::Array(vec![
                bulk("fork"),
                Reply::Int(3),
                Reply::Int(4500),
                Reply::Int(9),
            ])]),
            Reply::Array(vec![bulk("config"), histogram]),
            Reply::Array(vec![]),
            Reply::Array(["maxclients", "100"].map(bulk).to_vec()),
            Reply::Array(["maxmemory", "0"].map(bulk).to_vec()),
        ];
        let mut metrics = Metrics::default();
        collect(&mut metrics, &Info::parse(info), &replies);
        collect_cluster(&mut metrics, Some(&bulk("cluster_state:ok\r\ncluster_known_nodes:3\r\n")));
        let text = metrics.text();
        for line in [
            "redis_memory_used_bytes 7",
            "redis_evicted_keys_total 3",
            "redis_latest_fork_seconds 2",
            "redis_io_thread_clients{thread=\"0\"} 1",
            "redis_io_thread_reads_total{thread=\"0\"} 2",
            "redis_master_link_up{master_host=\"h\",master_port=\"6379\"} 1",
            "redis_slave_info{master_host=\"h\",master_port=\"6379\",read_only=\"1\"} 1",
            "redis_connected_slave_offset_bytes{slave_ip=\"1.2.3.4\",slave_port=\"5\",slave_state=\"online\"} 9",
            "redis_commands_total{cmd=\"config|get\"} 2",
            "redis_commands_duration_seconds_total{cmd=\"config|get\"} 0.00003",
            "redis_commands_failed_calls_total{cmd=\"config|get\"} 1",
            "redis_errors_total{err=\"ERR\"} 4",
            "redis_latency_percentiles_usec{cmd=\"config|get\",quantile=\"50\"} 10.5",
            "redis_latency_percentiles_usec{cmd=\"config|get\",quantile=\"99.9\"} 30.5",
            "redis_latency_percentiles_usec_count{cmd=\"config|get\"} 2",
            "redis_commands_latencies_usec_bucket{cmd=\"config\",le=\"33\"} 2",
            "redis_commands_latencies_usec_sum{cmd=\"config\"} 30",
            "redis_db_keys{db=\"db0\"} 5",
            "redis_db_avg_ttl_seconds{db=\"db0\"} 1.5",
            "redis_keys_by_size{db=\"db0\",type=\"strings\",unit=\"sizes\",from=\"2\"} 4",
            "redis_slowlog_length 6",
            "redis_slowlog_last_id 8",
            "redis_last_slow_execution_duration_seconds 2.5",
            "redis_latency_spike_duration_seconds{event_name=\"fork\"} 4.5",
            "redis_cluster_state 1",
            "redis_cluster_known_nodes 3",
            "redis_config_maxclients 100",
            "redis_start_time_seconds 6",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("used_memory_human") && !text.contains("tcp_port 1"));
    }
}
