//! A long random workload of every command that writes, with a real server at one end: both ends are equal
//! key by key after it.
//!
//! The seed is printed, and taken from `MARTLET_REPLICATION_SEED`; `MARTLET_REPLICATION_COMMANDS` commands
//! are sent each way, and as many again to a replica that was not there before.

use martlet_base::random::Random;
use martlet_client::blocking::Client;
use martlet_testkit::server::Server;

use super::channels_replica::{peers, start};
use super::replica::{ask, assert_equal, field, follow, ours, peer};
use super::{has_peer, text, wait_until};

/// Requests; a letter after `$` is drawn: a key by its type's letter (`k`: of any), `v` a value, `f` a member
/// or field, `i` a small integer, `c` a count, `d` a score, `e` and `E` a time to live in ms and in s. No
/// score is multiplied: DEBUG DIGEST of Redis 7.0 prints large ones with other digits than later versions.
const REQUESTS: &[&str] = &[
    "SET $s $v",
    "SET $s $v PX $e",
    "SET $s $v KEEPTTL",
    "SET $s $v NX GET",
    "SET $s $v XX EX $E",
    "SETNX $s $v",
    "SETEX $s $E $v",
    "PSETEX $s $e $v",
    "GETSET $s $v",
    "GETDEL $s",
    "GETEX $s PX $e",
    "GETEX $s PERSIST",
    "APPEND $s $v",
    "SETRANGE $s $c $v",
    "MSET $s $v $s $v $n $i",
    "MSETNX $s $v $n $i",
    "INCR $n",
    "DECR $n",
    "INCRBY $n $i",
    "DECRBY $n $i",
    "INCRBYFLOAT $n $d",
    "LCS $s $s",
    "SETBIT $b $c 1",
    "SETBIT $b $c 0",
    "BITOP AND $b $b $b",
    "BITOP NOT $b $b",
    "BITOP XOR $b $b $s",
    "BITFIELD $b SET u8 #$c $c INCRBY i5 3 $i OVERFLOW SAT INCRBY u4 0 9",
    "PFADD $p $f $f",
    "PFMERGE $p $p $p",
    "PFCOUNT $p",
    "LPUSH $l $v $f",
    "RPUSH $l $v $f $i",
    "LPUSHX $l $v",
    "RPUSHX $l $v",
    "LPOP $l",
    "RPOP $l $c",
    "LSET $l $i $v",
    "LINSERT $l BEFORE $f $v",
    "LINSERT $l AFTER $f $v",
    "LREM $l $i $f",
    "LTRIM $l $i -1",
    "LMOVE $l $l LEFT RIGHT",
    "RPOPLPUSH $l $l",
    "LMPOP 2 $l $l LEFT COUNT $c",
    "BLPOP $l $l 0.001",
    "BRPOP $l 0.001",
    "BLMOVE $l $l RIGHT LEFT 0.001",
    "BRPOPLPUSH $l $l 0.001",
    "BLMPOP 0.001 2 $l $l RIGHT",
    "SADD $t $f $f $i",
    "SADD $t $i $i $i",
    "SREM $t $f $i",
    "SPOP $t",
    "SPOP $t $c",
    "SMOVE $t $t $f",
    "SINTERSTORE $t $t $t",
    "SUNIONSTORE $t $t $t",
    "SDIFFSTORE $t $t $t",
    "HSET $h $f $v $f $i",
    "HMSET $h $f $v",
    "HSETNX $h $f $v",
    "HDEL $h $f $f",
    "HINCRBY $h $f $i",
    "HINCRBYFLOAT $h $f $d",
    "ZADD $z $d $f $d $f",
    "ZADD $z NX $d $f",
    "ZADD $z GT CH $d $f",
    "ZADD $z INCR $d $f",
    "ZINCRBY $z $d $f",
    "ZREM $z $f $f",
    "ZPOPMIN $z",
    "ZPOPMAX $z $c",
    "ZMPOP 2 $z $z MIN COUNT $c",
    "BZPOPMIN $z $z 0.001",
    "BZMPOP 0.001 1 $z MAX",
    "ZREMRANGEBYRANK $z $i $i",
    "ZREMRANGEBYSCORE $z $d $d",
    "ZREMRANGEBYLEX $z [a [c",
    "ZUNIONSTORE $z 2 $z $z WEIGHTS 1 -1 AGGREGATE MAX",
    "ZINTERSTORE $z 2 $z $t",
    "ZDIFFSTORE $z 2 $z $z",
    "ZRANGESTORE $z $z $i $i",
    "GEOADD $z $d $d $f",
    "GEOSEARCHSTORE $z $z FROMLONLAT 1 1 BYRADIUS 9000 km ASC",
    "GEORADIUS $z 1 1 9000 km STORE $z",
    "SORT $l ALPHA STORE $l",
    "SORT $t ALPHA STORE $l",
    "XADD $x * $f $v",
    "XADD $x MAXLEN ~ 5 * $f $v",
    "XADD $x NOMKSTREAM MAXLEN 3 * $f $v $f $v",
    "XGROUP CREATE $x group 0 MKSTREAM",
    "XGROUP CREATE $x other $ MKSTREAM",
    "XGROUP DESTROY $x other",
    "XGROUP SETID $x group 0",
    "XGROUP CREATECONSUMER $x group $f",
    "XGROUP DELCONSUMER $x group $f",
    "XREADGROUP GROUP group $f COUNT $c STREAMS $x >",
    "XREADGROUP GROUP group $f NOACK STREAMS $x >",
    "XAUTOCLAIM $x group $f 0 0 COUNT $c",
    "XACK $x group 0-1",
    "XTRIM $x MAXLEN $c",
    "XTRIM $x MINID 5",
    "XSETID $x 9999999999999-1",
    "XDEL $x 9999999999999-1",
    "DEL $k $k",
    "UNLINK $k",
    "EXPIRE $k $E",
    "PEXPIRE $k $e",
    "EXPIRE $k -1",
    "EXPIREAT $k 4000000000",
    "PEXPIREAT $k 4000000000000",
    "EXPIRE $k $E GT",
    "PERSIST $k",
    "RENAME $k $k",
    "RENAMENX $k $k",
    "COPY $k $k REPLACE",
    "COPY $k $k DB 1",
    "MOVE $k 1",
    "TOUCH $k",
    "GET $s",
    "TYPE $k",
    "SELECT 1",
    "SELECT 0",
    "SELECT 0",
    "SWAPDB 0 1",
    "PUBLISH channel $v",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
];
/// Keys of a type: few, so that commands meet.
const KEYS: u64 = 5;
/// Least number of keys of a compared database.
const LEAST_KEYS: usize = 10;
/// One in this number of requests is in a transaction, and one in a script.
const WRAPPED: u64 = 12;

/// Draws requests.
struct Workload {
    random: Random,
}

impl Workload {
    fn request(&mut self) -> Vec<String> {
        let template = REQUESTS[self.random.below(REQUESTS.len() as u64) as usize];
        template.split(' ').map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: &str) -> String {
        let Some((before, kind)) = word.split_once('$').filter(|(_, kind)| !kind.is_empty()) else {
            return word.into();
        };
        let below = |random: &mut Random, count| random.below(count);
        let random = &mut self.random;
        let drawn = match kind {
            "v" if below(random, 20) == 0 => "long ".repeat(below(random, 200) as usize),
            "v" => format!("value{}", below(random, 50)),
            "f" => char::from(b'a' + below(random, 6) as u8).to_string(),
            "i" => (below(random, 9) as i64 - 4).to_string(),
            "c" => below(random, 5).to_string(),
            "d" => format!("{}.{}", below(random, 40) as i64 - 20, below(random, 4) * 25),
            // What expires does so after the test, on both ends.
            "e" => (1_000_000 + below(random, 1000)).to_string(),
            "E" => (1000 + below(random, 1000)).to_string(),
            "k" => {
                let types = ["s", "n", "b", "p", "l", "t", "h", "z", "x"];
                let kind = types[below(random, types.len() as u64) as usize];
                format!("{kind}{}", below(random, KEYS))
            }
            kind => format!("{kind}{}", below(random, KEYS)),
        };
        format!("{before}{drawn}")
    }

    /// Sends some requests, alone, in transactions and in scripts.
    fn send(&mut self, client: &mut Client, count: u64) {
        let mut sent = 0;
        while sent < count {
            match self.random.below(WRAPPED) {
                0 => {
                    ask(client, "MULTI");
                    let size = 1 + self.random.below(4);
                    (0..size).for_each(|_| drop(client.command(&self.request()).unwrap()));
                    client.command(&["EXEC"]).unwrap();
                    sent += size;
                }
                1 => {
                    let request = self.request();
                    let script = "redis.pcall(unpack(ARGV)) return redis.call('INCR', 'n0')";
                    let words = ["EVAL", script, "0"].into_iter().chain(request.iter().map(String::as_str));
                    client.command(&words.collect::<Vec<_>>()).unwrap();
                    sent += 1;
                }
                _ => {
                    client.command(&self.request()).unwrap();
                    sent += 1;
                }
            }
        }
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Both ends after a workload: the primary's commands come by the stream, then the data set as a whole.
fn compare(primary: &(Server, Client), replica: (Server, Client), again: (Server, Client)) {
    let seed = number("MARTLET_REPLICATION_SEED", Random::from_entropy().below(1 << 40));
    let count = number("MARTLET_REPLICATION_COMMANDS", 1500);
    println!("MARTLET_REPLICATION_SEED={seed}");
    let mut workload = Workload { random: Random::seeded(seed) };
    let port = primary.0.address().port();
    let mut client = Client::connect(primary.0.address()).unwrap();
    for (server, mut own) in [replica, again] {
        follow(&mut own, port);
        workload.send(&mut client, count);
        ask(&mut client, "SELECT 0");
        assert_equal_by_key(&mut client, &mut own, &server);
    }
}

/// As [`assert_equal`]; a difference is reported by its key.
fn assert_equal_by_key(primary: &mut Client, replica: &mut Client, server: &Server) {
    wait_until("the same place", || {
        field(primary, "master_repl_offset") == field(replica, "slave_repl_offset")
    });
    for db in ["0", "1"] {
        for client in [&mut *primary, &mut *replica] {
            assert_eq!(ask(client, &format!("SELECT {db}")), "OK");
        }
        let keys = text(&primary.command(&["KEYS", "*"]).unwrap());
        assert!(keys.split_whitespace().count() >= LEAST_KEYS, "database {db} has {keys}");
        for key in keys.split_whitespace() {
            let request = format!("DEBUG DIGEST-VALUE {key}");
            let (there, here) = (ask(primary, &request), ask(replica, &request));
            assert_eq!(there, here, "{key} of database {db}\n{}", server.log());
        }
    }
    assert_eq!(ask(primary, "SELECT 0"), "OK");
    assert_equal(primary, replica);
}

#[test]
fn what_a_real_primary_does_is_done_here() {
    if has_peer() {
        compare(&peer(&[]), ours(&[]), ours(&["--appendonly", "yes"]));
    }
    for (path, parameter) in peers() {
        compare(&start(&path, parameter, &[]), ours(&[]), ours(&["--repl-diskless-load", "swapdb"]));
    }
}

#[test]
fn what_is_done_here_a_real_replica_does() {
    if has_peer() {
        compare(&ours(&[]), peer(&[]), peer(&[]));
    }
    for (path, parameter) in peers() {
        compare(&ours(&[]), start(&path, parameter, &[]), start(&path, parameter, &[]));
    }
}
