//! A tour of a cluster with redis-rs while slots move and a replica takes over: what was counted is there.

use redis::cluster::{ClusterClientBuilder, ClusterConnection};
use redis::{Commands, cmd};
use std::path::PathBuf;

const COUNTERS: usize = 200;

fn commands(r: &mut ClusterConnection) {
    for i in 0..100 {
        let _: () = r.set(format!("key:{i}"), i).unwrap();
    }
    for i in 0..100 {
        assert_eq!(r.get::<_, i64>(format!("key:{i}")).unwrap(), i);
    }
    let _: () = r.mset(&[("{tag}a", 1), ("{tag}b", 2)]).unwrap();
    assert_eq!(r.mget::<_, Vec<i64>>(&["{tag}a", "{tag}b"]).unwrap(), [1, 2]);
    let script = redis::Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    assert_eq!(script.key("{tag}a").arg(5).invoke::<i64>(r).unwrap(), 6);
    assert!(cmd("RENAME").arg("{one}a").arg("{two}a").query::<()>(r).is_err());
    let mut pipe = redis::cluster::cluster_pipe();
    for i in 0..100 {
        pipe.incr(format!("piped:{i}"), 1);
    }
    assert_eq!(pipe.query::<Vec<i64>>(r).unwrap(), vec![1; 100]);
}

fn counts(r: &mut ClusterConnection) {
    let end = PathBuf::from(std::env::var("TOUR_END").unwrap());
    let mut rounds = 0i64;
    while !end.exists() {
        rounds += 1;
        for i in 0..COUNTERS {
            assert_eq!(r.incr::<_, _, i64>(format!("counter:{i}"), 1).unwrap(), rounds);
        }
    }
    assert!(rounds > 0);
    for i in 0..COUNTERS {
        assert_eq!(r.get::<_, i64>(format!("counter:{i}")).unwrap(), rounds);
    }
}

fn main() {
    let url = format!("redis://127.0.0.1:{}", std::env::var("REDIS_PORT").unwrap());
    let mut r = ClusterClientBuilder::new([url]).build().unwrap().get_connection().unwrap();
    commands(&mut r);
    counts(&mut r);
}
