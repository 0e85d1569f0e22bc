//! Files of real servers, faults with their errors, and saving on a disk that fails.

use super::*;
use martlet_base::disk::RealDisk;
use martlet_base::disk::faults::{self, FaultyDisk};

const VALKEY_91: &str = include_str!("../../testdata/valkey91.conf");
const REDIS_82: &str = include_str!("../../testdata/redis82.conf");
const REDIS_70: &str = include_str!("../../testdata/redis70.conf");

#[test]
fn files_of_valkey_9_and_redis_8_are_written_as_they_were() {
    for file in [VALKEY_91, REDIS_82] {
        assert_eq!(Conf::parse(file).unwrap().to_text(), file);
    }
}

#[test]
fn a_file_of_redis_7_0_has_no_fields() {
    let conf = Conf::parse(REDIS_70).unwrap();
    assert_eq!((conf.current_epoch, conf.last_vote_epoch, conf.nodes.len()), (4, 4, 4));
    let own = conf.nodes.iter().find(|entry| entry.flags.has(NodeFlags::MYSELF)).unwrap();
    assert_eq!((own.shard, own.slots.ranges()), (None, vec![(5001, 10000)]));
    assert!(matches!(own.open[..], [(100, Open::Importing(_))]));
    let client = own.line(Reader::Client { has_tls: false, is_ipv6: false });
    assert!(REDIS_70.contains(&client), "{client}");
    assert_eq!(Conf::parse(&conf.to_text()).unwrap(), conf);
}

#[test]
fn every_fault_is_named_with_its_line() {
    let id = "5b56da6dfb094bbe851504d87de7dee1fdad3038";
    let own = |rest: &str| format!("{id} {rest}\n");
    for (text, expected) in [
        (String::new(), "line 0: 0 nodes are flagged as myself"),
        (own(":1@2 myself,master - 0 0"), "line 1: a node's line has at least eight fields"),
        ("x :1@2 myself,master - 0 0 0 connected".into(), "line 1: 'x' is no node id"),
        (
            own("nowhere myself,master - 0 0 0 connected"),
            "line 1: 'nowhere' is no address (host:port@bus-port)",
        ),
        (own(":70000@2 myself - 0 0 0 connected"), "line 1: ':70000@2' is no address (host:port@bus-port)"),
        (own(":1@2,,x=1 myself - 0 0 0 connected"), "line 1: 'x=1' is no auxiliary field"),
        (own(":1@2,,tls-port=x myself - 0 0 0 connected"), "line 1: 'tls-port=x' is no auxiliary field"),
        (own(":1@2 me - 0 0 0 connected"), "line 1: 'me' are no flags"),
        (own(":1@2 myself x 0 0 0 connected"), "line 1: 'x' is no node id"),
        (own(":1@2 myself - 0 0 -1 connected"), "line 1: '-1' is no number"),
        (
            own(":1@2 myself - 0 0 0 connected 16384"),
            "line 1: '16384' is no slot, range of slots or slot under way",
        ),
        (
            own(":1@2 myself - 0 0 0 connected 5-4"),
            "line 1: '5-4' is no slot, range of slots or slot under way",
        ),
        (
            own(":1@2 myself - 0 0 0 connected [1-x]"),
            "line 1: '[1-x]' is no slot, range of slots or slot under way",
        ),
        (
            own(":1@2 myself - 0 0 0 connected 0-5461").trim_end().into(),
            "line 1: the file ends within a line",
        ),
        (own(":1@2 myself - 0 0 0 connected 1-3 2"), "line 1: slot 2 has two owners"),
        (own(":1@2 myself - 0 0 0 connected") + "vars currentEpoch", "line 2: a variable has no value"),
        (own(":1@2 myself - 0 0 0 connected") + "\nvars currentEpoch x", "line 3: 'x' is no number"),
        (
            own(":1@2 myself - 0 0 0 connected").repeat(2),
            "line 2: node 5b56da6dfb094bbe851504d87de7dee1fdad3038 has two lines",
        ),
    ] {
        assert_eq!(Conf::parse(&text).unwrap_err().to_string(), expected, "{text}");
    }
    let lenient = own("::1:1 MYSELF,PRIMARY - 0 0 0 connected") + "\n\nVARS currentEpoch 3 later 1\n";
    let conf = Conf::parse(&lenient).unwrap();
    assert_eq!((conf.current_epoch, conf.nodes[0].address.host.as_str()), (3, "::1"));
    assert_eq!(conf.nodes[0].address.bus_port, 10_001);
}

/// A file system that was cut off may leave a file's end, or a block of it, as NULs.
#[test]
fn nuls_in_place_of_lines_are_skipped() {
    let conf = Conf::parse(VALKEY_91).unwrap();
    let nuls = "\0".repeat(512);
    let lines: Vec<&str> = VALKEY_91.lines().collect();
    for text in [
        format!("{VALKEY_91}{nuls}"),
        format!("{VALKEY_91}{nuls}\n"),
        format!("{nuls}\n{VALKEY_91}"),
        format!("{}{nuls}", VALKEY_91.trim_end()),
        format!("{}\n{nuls}\n{}\n", lines[0], lines[1..].join("\n")),
    ] {
        assert_eq!(Conf::parse(&text).unwrap().to_text(), conf.to_text());
    }
    let torn = format!("{}{nuls}", lines[0]);
    assert!(!lines[0].starts_with("vars") && Conf::parse(&torn).is_err());
    assert!(Conf::parse(&nuls).is_err());
}

#[test]
fn a_file_that_is_cut_off_is_refused_or_shorter() {
    for length in 0..VALKEY_91.len() {
        let text = &VALKEY_91[..length];
        if let Ok(conf) = Conf::parse(text) {
            assert!(conf.nodes.len() <= 4);
            let is_between_lines = text.ends_with('\n');
            assert!(is_between_lines || text.lines().next_back().unwrap().starts_with("vars"), "{text}");
        }
    }
}

#[test]
fn a_crash_leaves_the_old_file_or_the_new_one() {
    let folder = std::env::temp_dir().join(format!("martlet-nodes-conf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("nodes.conf");
    assert!(load(&path).unwrap().is_none());
    std::fs::write(&path, "").unwrap();
    assert!(load(&path).unwrap().is_none());
    save(&RealDisk, &path, REDIS_82, true, |_| ()).unwrap();
    for step in 0..6 {
        let disk = FaultyDisk::failing_at(step, faults::Fault::Refuse(faults::errno::EIO));
        let outcome = save(&disk, &path, VALKEY_91, true, |_| ());
        let text = load(&path).unwrap().unwrap().to_text();
        assert!(if outcome.is_ok() { text == VALKEY_91 } else { text == VALKEY_91 || text == REDIS_82 });
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "step {step}");
        save(&RealDisk, &path, REDIS_82, true, |_| ()).unwrap();
    }
    let after = folder.with_extension("after");
    for seed in 0..20 {
        let disk = FaultyDisk::new(|_, _, _| None);
        save(&disk, &path, if seed % 2 == 0 { VALKEY_91 } else { REDIS_82 }, true, |_| ()).unwrap();
        let _ = std::fs::remove_dir_all(&after);
        std::fs::create_dir_all(&after).unwrap();
        disk.lose_power(seed, &folder, &after).unwrap();
        let text = load(&after.join("nodes.conf")).unwrap().unwrap().to_text();
        assert_eq!(text, if seed % 2 == 0 { VALKEY_91 } else { REDIS_82 });
    }
    std::fs::remove_dir_all(&after).unwrap();
    std::fs::write(&path, "rubbish\n").unwrap();
    assert!(load(&path).unwrap_err().to_string().contains("line 1: a node's line has at least eight fields"));
    std::fs::remove_dir_all(&folder).unwrap();
}
