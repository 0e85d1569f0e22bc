"""A tour of the commands with redis-py, under both protocols; every step asserts what Redis answers."""

import os
import threading

import redis


def strings(r):
    assert r.set("k", "v") is True
    assert r.get("k") == "v"
    assert r.get("missing") is None
    assert r.set("k", "w", nx=True) is None
    assert r.set("k", "w", xx=True, ex=100) is True
    assert 90 < r.ttl("k") <= 100
    assert r.set("k", "x", get=True, keepttl=True) == "w"
    assert r.getex("k", persist=True) == "x" and r.ttl("k") == -1
    assert r.append("k", "yz") == 3 and r.strlen("k") == 3
    assert r.getrange("k", 1, -1) == "yz" and r.setrange("k", 1, "__") == 3
    assert r.getdel("k") == "x__"
    assert r.mset({"a": 1, "b": 2}) and r.mget("a", "missing", "b") == ["1", None, "2"]
    assert r.msetnx({"a": 1, "c": 2}) is False
    assert r.incr("a") == 2 and r.incrby("a", 10) == 12 and r.decr("a", 2) == 10
    assert r.incrbyfloat("a", 0.5) == 10.5
    assert r.lcs("a", "b", len=True) == 0


def bitmaps(r):
    assert r.setbit("bits", 7, 1) == 0 and r.getbit("bits", 7) == 1
    assert r.bitcount("bits") == 1 and r.bitpos("bits", 1) == 7
    r.set("other", "\x0f")
    assert r.bitop("OR", "result", "bits", "other") == 1 and r.bitcount("result") == 4
    assert r.bitfield("f").set("u8", 0, 200).incrby("u8", 0, 100).get("u8", 0).execute() == [0, 44, 44]


def keys(r):
    r.mset({"one": 1, "two": 2})
    assert r.exists("one", "two", "three") == 2 and r.type("one") == "string"
    assert sorted(r.keys("*")) == ["one", "two"] and r.dbsize() == 2
    assert sorted(r.scan_iter("*", count=1)) == ["one", "two"]
    assert r.rename("one", "uno") and r.renamenx("uno", "two") is False
    assert r.copy("uno", "dos") and r.get("dos") == "1"
    assert r.expire("uno", 100) and 90 < r.ttl("uno") <= 100 and r.persist("uno")
    assert r.pexpireat("uno", 33177117420123) and r.pexpiretime("uno") == 33177117420123
    assert r.expire("uno", 10, gt=True) is False
    assert r.object("encoding", "dos") == "int" and r.object("refcount", "dos") >= 1
    raw = redis.Redis(port=PORT, decode_responses=False)
    payload = raw.dump("dos")
    assert r.restore("tres", 0, payload) and r.get("tres") == "1"
    assert r.touch("uno", "dos") == 2 and r.unlink("uno", "dos") == 2 and r.delete("tres", "x") == 1
    r.rpush("list", 3, 1, 2)
    assert r.sort("list") == ["1", "2", "3"] and r.sort("list", desc=True, start=0, num=1) == ["3"]
    assert r.sort("list", store="sorted") == 3 and r.randomkey() is not None
    assert r.memory_usage("list") > 0


def hashes(r):
    assert r.hset("h", mapping={"a": 1, "b": 2}) == 2 and r.hset("h", "a", 5) == 0
    assert r.hget("h", "a") == "5" and r.hmget("h", "a", "x") == ["5", None]
    assert r.hgetall("h") == {"a": "5", "b": "2"}
    assert r.hlen("h") == 2 and r.hexists("h", "a") and r.hstrlen("h", "a") == 1
    assert r.hincrby("h", "a", 5) == 10 and r.hincrbyfloat("h", "a", 0.5) == 10.5
    assert sorted(r.hkeys("h")) == ["a", "b"] and len(r.hvals("h")) == 2
    assert r.hsetnx("h", "a", 1) == 0 and r.hdel("h", "a", "x") == 1
    assert dict(r.hscan_iter("h")) == {"b": "2"} and r.hrandfield("h") == "b"
    big = {f"field{i}": f"value{i}" for i in range(1000)}
    r.hset("big", mapping=big)
    assert r.hgetall("big") == big and dict(r.hscan_iter("big")) == big


def lists(r):
    assert r.rpush("l", "a", "b", "c") == 3 and r.lpush("l", "z") == 4
    assert r.lrange("l", 0, -1) == ["z", "a", "b", "c"] and r.llen("l") == 4
    assert r.lindex("l", 1) == "a" and r.lset("l", 1, "A") and r.linsert("l", "BEFORE", "b", "x") == 5
    assert r.lpos("l", "b") == 3 and r.lrem("l", 0, "x") == 1 and r.ltrim("l", 1, -1)
    assert r.lpop("l") == "A" and r.rpop("l", 2) == ["c", "b"] and r.lpop("l") is None
    r.rpush("l", 1, 2, 3)
    assert r.lmove("l", "m", "LEFT", "RIGHT") == "1" and r.rpoplpush("l", "m") == "3"
    assert r.lmpop(2, "none", "m", direction="LEFT", count=5) == ["m", ["3", "1"]]
    assert r.lpushx("none", 1) == 0


def sets(r):
    assert r.sadd("s", "a", "b", "c") == 3 and r.scard("s") == 3
    assert r.smembers("s") == {"a", "b", "c"} and r.sismember("s", "a")
    assert r.smismember("s", ["a", "x"]) == [1, 0] and r.srem("s", "a", "x") == 1
    r.sadd("t", "c", "d")
    assert r.sinter("s", "t") == {"c"} and r.sunion("s", "t") == {"b", "c", "d"} and r.sdiff("s", "t") == {"b"}
    assert r.sinterstore("u", "s", "t") == 1 and r.sintercard(2, ["s", "t"]) == 1
    assert r.smove("s", "t", "b") and r.spop("s") == "c" and r.srandmember("t", 10) is not None
    assert set(r.sscan_iter("t")) == {"b", "c", "d"}


def sorted_sets(r):
    assert r.zadd("z", {"a": 1, "b": 2, "c": 3}) == 3 and r.zadd("z", {"a": 5}, gt=True, ch=True) == 1
    assert r.zscore("z", "a") == 5.0 and r.zrank("z", "a") == 2 and r.zrevrank("z", "a") == 0
    assert r.zrange("z", 0, -1) == ["b", "c", "a"] and r.zcard("z") == 3
    pairs = r.zrange("z", 0, -1, withscores=True)
    assert [tuple(pair) for pair in pairs] == [("b", 2.0), ("c", 3.0), ("a", 5.0)]
    assert r.zrangebyscore("z", "(2", "+inf") == ["c", "a"] and r.zcount("z", 2, 3) == 2
    assert r.zrange("z", 5, 0, byscore=True, desc=True, offset=0, num=1) == ["a"]
    assert r.zincrby("z", 1.5, "b") == 3.5 and r.zmscore("z", ["a", "x"]) == [5.0, None]
    r.zadd("y", {"a": 1, "d": 4})
    assert r.zunionstore("u", ["z", "y"]) == 4 and r.zscore("u", "a") == 6.0
    assert r.zinter(["z", "y"]) == ["a"] and r.zdiff(["z", "y"]) == ["c", "b"]
    assert r.zrangestore("copy", "z", 0, 0) == 1 and r.zrem("z", "c") == 1
    assert r.zremrangebyrank("z", 0, 0) == 1 and r.zremrangebyscore("z", 0, 100) == 1
    r.zadd("lex", {"a": 0, "b": 0, "c": 0})
    assert r.zrangebylex("lex", "[a", "(c") == ["a", "b"] and r.zlexcount("lex", "-", "+") == 3
    assert [tuple(pair) for pair in r.zpopmin("lex", 1)] == [("a", 0.0)]
    assert dict(r.zscan_iter("lex")) == {"b": 0.0, "c": 0.0}


def blocking(r):
    other = redis.Redis(port=PORT, decode_responses=True, protocol=PROTOCOL)
    served = []
    thread = threading.Thread(target=lambda: served.append(other.blpop(["q1", "q2"], timeout=10)))
    thread.start()
    while r.info("clients")["blocked_clients"] == 0:
        pass
    r.rpush("q2", "job")
    thread.join()
    assert list(served[0]) == ["q2", "job"]
    r.rpush("q", "x")
    assert r.blmove("q", "done", 1, "LEFT", "RIGHT") == "x" and r.brpop("done", 1) is not None
    r.zadd("zq", {"m": 1})
    assert r.bzpopmin("zq", 1)[1] == "m" and r.blpop("none", 0.01) is None


def transactions(r):
    with r.pipeline() as pipe:
        pipe.set("n", 1).incr("n").get("n")
        assert pipe.execute() == [True, 2, "2"]
    with r.pipeline() as pipe:
        pipe.watch("n")
        r.set("n", 9)
        pipe.multi()
        pipe.incr("n")
        try:
            pipe.execute()
            raise AssertionError("a changed watched key must abort")
        except redis.WatchError:
            pass
    with r.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"p{i}", i)
        assert all(pipe.execute())
    try:
        r.lpush("n", 1)
        raise AssertionError("a wrong type must fail")
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE")


def administration(r):
    assert r.ping() and r.echo("hi") == "hi" and r.client_setname("tour") and r.client_getname() == "tour"
    assert r.client_id() > 0 and any(client["name"] == "tour" for client in r.client_list())
    assert r.config_set("slowlog-max-len", 64) and r.config_get("slowlog-max-len") == {"slowlog-max-len": "64"}
    assert r.config_set("slowlog-max-len", 128) and r.config_resetstat()
    info = r.info()
    assert info["redis_version"] and info["connected_clients"] >= 1 and "used_memory" in info
    assert r.command_count() > 100 and "get" in r.command()
    assert isinstance(r.slowlog_get(), list) and r.slowlog_reset() and len(r.time()) == 2
    assert r.move("nothing", 1) is False and r.swapdb(0, 0)
    assert r.wait(0, 10) == 0 and r.lastsave() is not None


def scripts(r):
    add = r.register_script("return redis.call('incrby', KEYS[1], ARGV[1])")
    assert add(keys=["n"], args=[5]) == 5 and add(keys=["n"], args=[2]) == 7
    assert r.script_exists(add.sha, "0" * 40) == [True, False] and r.script_flush()
    try:
        r.evalsha(add.sha, 1, "n", 1)
        raise AssertionError("a flushed script must be unknown")
    except redis.exceptions.NoScriptError:
        assert add(keys=["n"], args=[1]) == 8
    assert r.eval("return {1, 2.9, 'x', false, {ok = 'fine'}}", 0) == [1, 2, "x", None, "fine"]
    assert r.eval_ro("return redis.call('get', KEYS[1])", 1, "n") == "8"
    assert r.eval("return cjson.encode({a = {1, 2}})", 0) == '{"a":[1,2]}'
    for script, answer in [("return redis.error_reply('MY own')", "MY own"), ("return redis.call('x')", "Unknown")]:
        try:
            r.eval(script, 0)
            raise AssertionError("a script's error must reach its caller")
        except redis.ResponseError as error:
            assert answer in str(error), error


def streams(r):
    assert r.xadd("x", {"a": 1}, id="1-1") == "1-1" and r.xadd("x", {"b": 2}, id="2-0") == "2-0"
    assert r.xlen("x") == 2 and r.xrange("x") == [("1-1", {"a": "1"}), ("2-0", {"b": "2"})]
    assert r.xrevrange("x", count=1) == [("2-0", {"b": "2"})]
    assert r.xgroup_create("x", "g", id="0") and r.xinfo_groups("x")[0]["lag"] == 2
    read = r.xreadgroup("g", "me", {"x": ">"}, count=1)
    entries = read["x"][0] if PROTOCOL == 3 else read[0][1]
    assert entries == [("1-1", {"a": "1"})]
    assert r.xpending("x", "g")["consumers"] == [{"name": "me", "pending": 1}]
    assert r.xclaim("x", "g", "you", 0, ["1-1"], justid=True) == ["1-1"]
    assert r.xautoclaim("x", "g", "me", 0)[1] == [("1-1", {"a": "1"})] and r.xack("x", "g", "1-1") == 1
    assert r.xinfo_stream("x")["last-generated-id"] == "2-0" and r.xinfo_stream("x", full=True)["groups"]
    assert r.xtrim("x", maxlen=1, approximate=False) == 1 and r.xdel("x", "2-0") == 1
    assert not r.xread({"x": "$"}, block=10)


def geography(r):
    assert r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert r.geodist("g", "Palermo", "Catania", "km") == 166.2742
    assert r.geohash("g", "Palermo", "x") == ["sqc8b49rny0", None]
    assert r.geopos("g", "x", "Catania")[1][0] == 15.087267458438873
    near = r.geosearch("g", longitude=15, latitude=37, radius=100, unit="km", withdist=True)
    assert near == [["Catania", 56.4413]] and r.geosearchstore("h", "g", member="Palermo", radius=1) == 1
    assert r.pfadd("p", 1, 2, 3) == 1 and r.pfmerge("q", "p") and r.pfcount("p", "q") == 3


def users(r):
    rules = {"keys": ["app:*"], "commands": ["+@read", "+set", "-@dangerous"], "passwords": ["+secret"]}
    assert r.acl_setuser("tourist", enabled=True, **rules)
    assert "+@read" in r.acl_getuser("tourist")["categories"] and r.acl_whoami() == "default"
    assert r.acl_users() == ["default", "tourist"]
    tourist = redis.Redis(port=PORT, username="tourist", password="secret", decode_responses=True, protocol=PROTOCOL)
    assert tourist.set("app:1", "x") and tourist.get("app:1") == "x"
    for refused in (lambda: tourist.get("other"), tourist.flushall):
        try:
            refused()
            raise AssertionError("what a user may not do must fail")
        except redis.exceptions.NoPermissionError:
            pass
    assert r.acl_log(1)[0]["username"] == "tourist" and r.acl_log_reset()
    assert r.execute_command("ACL", "DRYRUN", "tourist", "GET", "app:1") == "OK"
    assert r.acl_deluser("tourist") == 1
    try:
        redis.Redis(port=PORT, username="tourist", password="secret").ping()
        raise AssertionError("a deleted user must be refused")
    except redis.AuthenticationError:
        pass


PORT = int(os.environ.get("REDIS_PORT", "6379"))
PROTOCOL = 2
GROUPS = [strings, bitmaps, keys, hashes, lists, sets, sorted_sets, blocking, transactions, administration]
GROUPS += [scripts, streams, geography, users]

for PROTOCOL in (2, 3):
    client = redis.Redis(port=PORT, decode_responses=True, protocol=PROTOCOL)
    for group in GROUPS:
        client.flushall()
        group(client)
        print(f"redis-py RESP{PROTOCOL} {group.__name__}: ok")
    client.flushall()
