//! A tour of the commands with redis-rs; every step asserts what Redis answers.

use redis::{Commands, Connection, Direction, ErrorKind, LposOptions, RedisResult, SetOptions, Value};
use std::collections::{BTreeMap, BTreeSet};

type Done = RedisResult<()>;
type Tour = fn(&mut Connection) -> Done;

fn connect() -> RedisResult<Connection> {
    let port = std::env::var("REDIS_PORT").unwrap_or_else(|_| "6379".into());
    redis::Client::open(format!("redis://127.0.0.1:{port}/"))?.get_connection()
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn strings(r: &mut Connection) -> Done {
    r.set::<_, _, ()>("k", "v")?;
    assert_eq!(r.get::<_, String>("k")?, "v");
    assert_eq!(r.get::<_, Option<String>>("missing")?, None);
    assert!(!r.set_nx::<_, _, bool>("k", "w")?);
    let get = SetOptions::default().get(true).with_expiration(redis::SetExpiry::EX(100));
    assert_eq!(r.set_options::<_, _, String>("k", "w", get)?, "v");
    assert!(r.ttl::<_, i64>("k")? > 90);
    assert_eq!(r.append::<_, _, i64>("k", "yz")?, 3);
    assert_eq!(r.getrange::<_, String>("k", 1, -1)?, "yz");
    assert_eq!(r.get_del::<_, String>("k")?, "wyz");
    r.mset::<_, _, ()>(&[("a", 1), ("b", 2)])?;
    assert_eq!(r.mget::<_, (i64, Option<i64>, i64)>(&["a", "missing", "b"])?, (1, None, 2));
    assert_eq!(r.incr::<_, _, i64>("a", 10)?, 11);
    assert_eq!(r.incr::<_, _, f64>("a", 0.5)?, 11.5);
    let bytes = b"\0\r\n\xff".to_vec();
    r.set::<_, _, ()>("bytes", &bytes)?;
    assert_eq!(r.get::<_, Vec<u8>>("bytes")?, bytes);
    Ok(())
}

fn bitmaps(r: &mut Connection) -> Done {
    assert!(!r.setbit::<_, bool>("bits", 7, true)?);
    assert!(r.getbit::<_, bool>("bits", 7)?);
    assert_eq!(r.bitcount::<_, i64>("bits")?, 1);
    assert_eq!(r.bit_not::<_, _, i64>("result", "bits")?, 1);
    let fields: Vec<i64> =
        redis::cmd("BITFIELD").arg(&["f", "SET", "u8", "0", "200", "INCRBY", "u8", "0", "100"]).query(r)?;
    assert_eq!(fields, [0, 44]);
    Ok(())
}

fn keys(r: &mut Connection) -> Done {
    r.mset::<_, _, ()>(&[("one", 1), ("two", 2)])?;
    assert_eq!(r.exists::<_, i64>(&["one", "two", "three"])?, 2);
    assert_eq!(r.scan::<String>()?.collect::<BTreeSet<_>>(), words(&["one", "two"]).into_iter().collect());
    assert_eq!(r.key_type::<_, String>("one")?, "string");
    r.rename::<_, _, ()>("one", "uno")?;
    assert!(r.expire::<_, bool>("uno", 100)? && r.persist::<_, bool>("uno")?);
    assert_eq!(r.object_encoding::<_, String>("uno")?, "int");
    let payload: Vec<u8> = redis::cmd("DUMP").arg("uno").query(r)?;
    redis::cmd("RESTORE").arg("tres").arg(0).arg(payload).exec(r)?;
    assert_eq!(r.get::<_, i64>("tres")?, 1);
    assert_eq!(r.del::<_, i64>(&["uno", "tres", "x"])?, 2);
    assert_eq!(r.unlink::<_, i64>("two")?, 1);
    Ok(())
}

fn hashes(r: &mut Connection) -> Done {
    r.hset_multiple::<_, _, _, ()>("h", &[("a", 1), ("b", 2)])?;
    let all: BTreeMap<String, i64> = r.hgetall("h")?;
    assert_eq!(all, BTreeMap::from([("a".into(), 1), ("b".into(), 2)]));
    assert_eq!(r.hincr::<_, _, _, i64>("h", "a", 5)?, 6);
    assert!(r.hexists::<_, _, bool>("h", "a")?);
    assert_eq!(r.hget::<_, _, Option<String>>("h", "x")?, None);
    assert_eq!(r.hdel::<_, _, i64>("h", &["a", "x"])?, 1);
    assert_eq!(r.hscan::<_, (String, i64)>("h")?.collect::<Vec<_>>(), [("b".to_string(), 2)]);
    Ok(())
}

fn lists(r: &mut Connection) -> Done {
    assert_eq!(r.rpush::<_, _, i64>("l", &["a", "b", "c"])?, 3);
    assert_eq!(r.lrange::<_, Vec<String>>("l", 0, -1)?, words(&["a", "b", "c"]));
    assert_eq!(r.linsert_before::<_, _, _, i64>("l", "b", "x")?, 4);
    assert_eq!(r.lpos::<_, _, i64>("l", "b", LposOptions::default())?, 2);
    assert_eq!(r.lmove::<_, _, String>("l", "m", Direction::Left, Direction::Right)?, "a");
    assert_eq!(r.rpop::<_, Vec<String>>("l", std::num::NonZeroUsize::new(2))?, words(&["c", "b"]));
    let popped: (String, Vec<String>) = r.lmpop(2, &["none", "l"], Direction::Left, 5)?;
    assert_eq!(popped, ("l".into(), words(&["x"])));
    Ok(())
}

fn sets(r: &mut Connection) -> Done {
    assert_eq!(r.sadd::<_, _, i64>("s", &["a", "b", "c"])?, 3);
    assert_eq!(r.smismember::<_, _, Vec<bool>>("s", &["a", "x"])?, [true, false]);
    r.sadd::<_, _, ()>("t", &["c", "d"])?;
    assert_eq!(r.sinter::<_, Vec<String>>(&["s", "t"])?, words(&["c"]));
    assert_eq!(r.sunionstore::<_, _, i64>("u", &["s", "t"])?, 4);
    assert_eq!(r.sdiff::<_, BTreeSet<String>>(&["s", "t"])?, words(&["a", "b"]).into_iter().collect());
    assert!(r.smove::<_, _, _, bool>("s", "t", "a")?);
    Ok(())
}

fn sorted_sets(r: &mut Connection) -> Done {
    assert_eq!(r.zadd_multiple::<_, f64, _, i64>("z", &[(1.0, "a"), (2.0, "b")])?, 2);
    assert_eq!(r.zincr::<_, _, _, f64>("z", "a", 2.5)?, 3.5);
    let all: Vec<(String, f64)> = r.zrange_withscores("z", 0, -1)?;
    assert_eq!(all, [("b".to_string(), 2.0), ("a".to_string(), 3.5)]);
    assert_eq!(r.zrangebyscore::<_, _, _, Vec<String>>("z", "(2", "+inf")?, words(&["a"]));
    assert_eq!(r.zrank::<_, _, i64>("z", "a")?, 1);
    assert_eq!(r.zunionstore::<_, _, i64>("u", &["z", "z"])?, 2);
    assert_eq!(r.zscore::<_, _, f64>("u", "a")?, 7.0);
    assert_eq!(r.zpopmax::<_, Vec<(String, f64)>>("z", 1)?, [("a".to_string(), 3.5)]);
    Ok(())
}

fn blocking(r: &mut Connection) -> Done {
    let waiter = std::thread::spawn(|| connect()?.blpop::<_, (String, String)>(&["q1", "q2"], 10.0));
    while !redis::cmd("INFO").arg("clients").query::<String>(r)?.contains("blocked_clients:1") {}
    r.rpush::<_, _, ()>("q2", "job")?;
    assert_eq!(waiter.join().expect("the waiter does not panic")?, ("q2".into(), "job".into()));
    assert_eq!(r.blpop::<_, Option<(String, String)>>("none", 0.01)?, None);
    Ok(())
}

fn transactions(r: &mut Connection) -> Done {
    let got: (i64, i64) = redis::pipe().atomic().set("n", 1).ignore().incr("n", 1).incr("n", 1).query(r)?;
    assert_eq!(got, (2, 3));
    redis::cmd("WATCH").arg("n").exec(r)?;
    connect()?.set::<_, _, ()>("n", 9)?;
    let aborted: Value = redis::pipe().atomic().incr("n", 1).query(r)?;
    assert_eq!(aborted, Value::Nil);
    let mut pipeline = redis::pipe();
    (0..1000).for_each(|i| {
        pipeline.set(format!("p{i}"), i);
    });
    assert_eq!(pipeline.query::<Vec<Value>>(r)?.len(), 1000);
    let wrong = r.lpush::<_, _, ()>("n", 1).expect_err("a wrong type must fail");
    assert_eq!(wrong.code(), Some("WRONGTYPE"));
    assert_eq!(wrong.kind(), ErrorKind::ExtensionError);
    Ok(())
}

fn scripts(r: &mut Connection) -> Done {
    let load = |r: &mut Connection| {
        let script = "return redis.call('incrby', KEYS[1], ARGV[1])";
        redis::cmd("SCRIPT").arg("LOAD").arg(script).query::<String>(r)
    };
    let sha = load(r)?;
    assert_eq!(redis::cmd("EVALSHA").arg(&sha).arg(1).arg("n").arg(5).query::<i64>(r)?, 5);
    redis::cmd("SCRIPT").arg("FLUSH").exec(r)?;
    let unknown = redis::cmd("EVALSHA").arg(&sha).arg(1).arg("n").arg(5).exec(r).expect_err("it was flushed");
    assert_eq!(unknown.kind(), ErrorKind::NoScriptError);
    let mixed: (i64, String, Option<i64>) =
        redis::cmd("EVAL").arg("return {1.5, 'x', false}").arg(0).query(r)?;
    assert_eq!(mixed, (1, "x".into(), None));
    Ok(())
}

fn streams(r: &mut Connection) -> Done {
    assert_eq!(redis::cmd("XADD").arg(&["x", "1-1", "a", "1"]).query::<String>(r)?, "1-1");
    redis::cmd("XGROUP").arg(&["CREATE", "x", "g", "0"]).exec(r)?;
    type Entries = Vec<(String, Vec<(String, Vec<String>)>)>;
    let read: Entries = redis::cmd("XREADGROUP").arg(&["GROUP", "g", "me", "STREAMS", "x", ">"]).query(r)?;
    assert_eq!(read, [("x".into(), vec![("1-1".into(), vec!["a".into(), "1".into()])])]);
    assert_eq!(redis::cmd("XACK").arg(&["x", "g", "1-1"]).query::<i64>(r)?, 1);
    Ok(())
}

fn geography(r: &mut Connection) -> Done {
    redis::cmd("GEOADD").arg(&["g", "13.361389", "38.115556", "Palermo"]).exec(r)?;
    assert_eq!(redis::cmd("GEOHASH").arg(&["g", "Palermo"]).query::<(String,)>(r)?.0, "sqc8b49rny0");
    assert_eq!(r.pfadd::<_, _, i64>("p", &["a", "b"])?, 1);
    assert_eq!(r.pfcount::<_, i64>("p")?, 2);
    Ok(())
}

fn users(r: &mut Connection) -> Done {
    redis::cmd("ACL").arg(&["SETUSER", "tourist", "on", ">secret", "~app:*", "+@read"]).exec(r)?;
    let mut tourist = connect()?;
    redis::cmd("AUTH").arg(&["tourist", "secret"]).exec(&mut tourist)?;
    assert_eq!(tourist.get::<_, Option<String>>("app:1")?, None);
    let refused = tourist.get::<_, Option<String>>("other").expect_err("another's key");
    assert_eq!(refused.code(), Some("NOPERM"));
    assert_eq!(redis::cmd("ACL").arg(&["DELUSER", "tourist"]).query::<i64>(r)?, 1);
    Ok(())
}

fn administration(r: &mut Connection) -> Done {
    assert_eq!(redis::cmd("PING").query::<String>(r)?, "PONG");
    assert_eq!(redis::cmd("ECHO").arg("hi").query::<String>(r)?, "hi");
    let info: redis::InfoDict = redis::cmd("INFO").query(r)?;
    assert!(info.get::<String>("redis_version").is_some());
    redis::cmd("CONFIG").arg(&["SET", "slowlog-max-len", "128"]).exec(r)?;
    let config: BTreeMap<String, String> = redis::cmd("CONFIG").arg(&["GET", "slowlog-max-len"]).query(r)?;
    assert_eq!(config["slowlog-max-len"], "128");
    assert!(redis::cmd("COMMAND").arg("COUNT").query::<i64>(r)? > 100);
    assert_eq!(redis::cmd("DBSIZE").query::<i64>(r)?, 0);
    Ok(())
}

fn main() -> RedisResult<()> {
    let tours: &[(&str, Tour)] = &[
        ("strings", strings),
        ("bitmaps", bitmaps),
        ("keys", keys),
        ("hashes", hashes),
        ("lists", lists),
        ("sets", sets),
        ("sorted sets", sorted_sets),
        ("blocking", blocking),
        ("transactions", transactions),
        ("administration", administration),
        ("scripts", scripts),
        ("streams", streams),
        ("geography", geography),
        ("users", users),
    ];
    let mut r = connect()?;
    for (name, tour) in tours {
        redis::cmd("FLUSHALL").exec(&mut r)?;
        tour(&mut r)?;
        println!("redis-rs {name}: ok");
    }
    redis::cmd("FLUSHALL").exec(&mut r)
}
