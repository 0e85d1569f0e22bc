//! Files of nodes: no panic, and a read file is written and read alike, also by a node that starts from it.

use martlet_base::random::Random;
use martlet_cluster::conf::Conf;
use martlet_cluster::machine::{Cluster, Settings, Time};

/// The input is a file.
pub fn check(data: &[u8]) {
    let Ok(conf) = Conf::parse(&String::from_utf8_lossy(data)) else { return };
    let text = conf.to_text();
    assert_eq!(Conf::parse(&text).map(|conf| conf.to_text()), Ok(text));
    let mut node = Cluster::from_conf(Settings::default(), Random::seeded(1), Time::default(), &conf);
    node.tick(Time { mono_ms: 100, unix_ms: 100 });
    let text = node.conf().to_text();
    assert_eq!(Conf::parse(&text).map(|conf| conf.to_text()), Ok(text));
}
