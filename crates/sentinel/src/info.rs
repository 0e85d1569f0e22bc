//! The fields of INFO that a Sentinel uses.
//!
//! Invariant: any text gives a report; malformed fields are left out.

/// Bytes of a run id.
const RUN_ID_BYTES: usize = 40;

/// The role that an instance says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidRole {
    /// `role:master`
    Primary,
    /// `role:slave`
    Replica,
}

/// What an instance says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// `run_id`
    pub run_id: Option<String>,
    /// `role`
    pub role: Option<SaidRole>,
    /// Hosts and ports of `slave0` and so on.
    pub replicas: Vec<(String, i64)>,
    /// `master_link_down_since_seconds`, in milliseconds.
    pub link_down_ms: i64,
    /// `master_host` and the further fields of a replica.
    pub primary_host: Option<String>,
    /// `master_port`
    pub primary_port: Option<i64>,
    /// `master_link_status`
    pub is_link_up: Option<bool>,
    /// `slave_priority`
    pub priority: Option<i64>,
    /// `slave_repl_offset`
    pub offset: Option<u64>,
    /// `replica_announced`
    pub is_announced: Option<bool>,
}

/// Reads an INFO.
pub fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.split("\r\n") {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name {
            "run_id" => report.run_id = value.get(..RUN_ID_BYTES).map(str::to_owned),
            "role" if value.starts_with("master") => report.role = Some(SaidRole::Primary),
            "role" if value.starts_with("slave") => report.role = Some(SaidRole::Replica),
            "master_link_down_since_seconds" => {
                report.link_down_ms = number(value).unwrap_or(0).saturating_mul(1000);
            }
            _ if is_replica_line(name) => report.replicas.extend(replica(value)),
            _ if report.role == Some(SaidRole::Replica) => replica_field(&mut report, name, value),
            _ => {}
        }
    }
    report
}

/// What only a replica says.
fn replica_field(report: &mut Report, name: &str, value: &str) {
    match name {
        "master_host" => report.primary_host = Some(value.into()),
        "master_port" => report.primary_port = number(value),
        "master_link_status" => report.is_link_up = Some(value.eq_ignore_ascii_case("up")),
        "slave_priority" => report.priority = number(value),
        "slave_repl_offset" => report.offset = value.trim_ascii().parse().ok(),
        "replica_announced" => report.is_announced = number(value).map(|value| value != 0),
        _ => {}
    }
}

fn number(text: &str) -> Option<i64> {
    text.trim_ascii().parse().ok()
}

fn is_replica_line(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// `ip=<host>,port=<port>,…`, or, as old servers say it, `<host>,<port>,<state>`.
fn replica(value: &str) -> Option<(String, i64)> {
    let field = |name: &str| value.split(',').find_map(|part| part.strip_prefix(name));
    let (host, port) = match (field("ip="), field("port=")) {
        (Some(host), Some(port)) => (host, port),
        (None, _) => {
            let mut parts = value.splitn(3, ',');
            let (host, port, _) = (parts.next()?, parts.next()?, parts.next()?);
            (host, port)
        }
        _ => return None,
    };
    Some((host.into(), number(port)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_primary_tells_its_replicas_in_both_forms() {
        let id = "a".repeat(40);
        let text = format!(
            "# Server\r\nrun_id:{id}\r\n# Replication\r\nrole:master\r\nslave0:ip=10.0.0.2,port=6380,state=online\r\n\
             slave1:10.0.0.3,6381,online\r\nslave_priority:7\r\nslaveof:x\r\n"
        );
        let report = parse(&text);
        assert_eq!((report.run_id, report.role), (Some(id), Some(SaidRole::Primary)));
        assert_eq!(report.replicas, [("10.0.0.2".into(), 6380), ("10.0.0.3".into(), 6381)]);
        assert_eq!(report.priority, None, "only replicas have one");
    }

    #[test]
    fn a_replica_tells_of_its_primary() {
        let report = parse(
            "role:slave\r\nmaster_host:h\r\nmaster_port:6379\r\nmaster_link_status:up\r\n\
             master_link_down_since_seconds:3\r\nslave_repl_offset:99\r\nslave_priority:10\r\nreplica_announced:0\r\n",
        );
        assert_eq!(report.role, Some(SaidRole::Replica));
        assert_eq!((report.primary_host.as_deref(), report.primary_port), (Some("h"), Some(6379)));
        assert_eq!((report.is_link_up, report.link_down_ms, report.offset), (Some(true), 3000, Some(99)));
        assert_eq!((report.priority, report.is_announced), (Some(10), Some(false)));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC*", lines in proptest::collection::vec("(role|slave0|run_id|master_host):[\\PC]{0,60}", 0..8)) {
            parse(&text);
            parse(&lines.join("\r\n"));
        }
    }
}
