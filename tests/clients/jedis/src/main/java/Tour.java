import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.BitOP;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.args.ListPosition;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.GetExParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.SortingParams;
import redis.clients.jedis.params.ZAddParams;
import redis.clients.jedis.resps.ScanResult;
import redis.clients.jedis.resps.Tuple;

/** A tour of the commands with Jedis, under both protocols; every step asserts what Redis answers. */
public class Tour {
  static final int PORT = Integer.parseInt(System.getenv().getOrDefault("REDIS_PORT", "6379"));

  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  static void must(boolean ok, String what) {
    if (!ok) throw new AssertionError(what);
  }

  static Jedis connect(RedisProtocol protocol) {
    var config = DefaultJedisClientConfig.builder().protocol(protocol).build();
    return new Jedis(new HostAndPort("127.0.0.1", PORT), config);
  }

  static void strings(Jedis r) {
    same("OK", r.set("k", "v"));
    same("v", r.get("k"));
    same(null, r.get("missing"));
    same(null, r.set("k", "w", SetParams.setParams().nx()));
    same("v", r.setGet("k", "w", SetParams.setParams().ex(100)));
    must(r.ttl("k") > 90, "ttl");
    same("w", r.getEx("k", GetExParams.getExParams().persist()));
    same(3L, r.append("k", "yz"));
    same("yz", r.getrange("k", 1, -1));
    same("wyz", r.getDel("k"));
    same("OK", r.mset("a", "1", "b", "2"));
    same("[1, null, 2]", r.mget("a", "missing", "b").toString());
    same(0L, r.msetnx("a", "1", "c", "1"));
    same(11L, r.incrBy("a", 10));
    same(11.5, r.incrByFloat("a", 0.5));
  }

  static void bitmaps(Jedis r) {
    same(false, r.setbit("bits", 7, true));
    same(true, r.getbit("bits", 7));
    same(1L, r.bitcount("bits"));
    same(7L, r.bitpos("bits", true));
    same(1L, r.bitop(BitOP.NOT, "result", "bits"));
    same(List.of(0L, 44L), r.bitfield("f", "SET", "u8", "0", "200", "INCRBY", "u8", "0", "100"));
  }

  static void keys(Jedis r) {
    r.mset("one", "1", "two", "2");
    same(2L, r.exists("one", "two", "three"));
    same("string", r.type("one"));
    var seen = new TreeSet<String>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> step = r.scan(cursor, new ScanParams().count(1));
      seen.addAll(step.getResult());
      cursor = step.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    same(Set.of("one", "two"), seen);
    same("OK", r.rename("one", "uno"));
    same(true, r.copy("uno", "dos", false));
    same(1L, r.expire("uno", 100));
    same(1L, r.persist("uno"));
    same(1L, r.pexpireAt("uno", 33177117420123L));
    same(33177117420123L, r.pexpireTime("uno"));
    same("int", r.objectEncoding("dos"));
    same("OK", r.restore("tres", 0, r.dump("dos")));
    same("1", r.get("tres"));
    r.rpush("list", "3", "1", "2");
    same(List.of("3", "2"), r.sort("list", new SortingParams().desc().limit(0, 2)));
    same(3L, r.del("uno", "dos", "tres", "x"));
    same(1L, r.unlink("two"));
  }

  static void hashes(Jedis r) {
    same(2L, r.hset("h", Map.of("a", "1", "b", "2")));
    same("1", r.hget("h", "a"));
    same(Map.of("a", "1", "b", "2"), r.hgetAll("h"));
    same("[1, null]", r.hmget("h", "a", "x").toString());
    same(6L, r.hincrBy("h", "a", 5));
    same(6.5, r.hincrByFloat("h", "a", 0.5));
    same(true, r.hexists("h", "a"));
    same(1L, r.hdel("h", "a", "x"));
    same("b", r.hrandfield("h"));
    same("b", r.hscan("h", "0").getResult().get(0).getKey());
  }

  static void lists(Jedis r) {
    same(3L, r.rpush("l", "a", "b", "c"));
    same(List.of("a", "b", "c"), r.lrange("l", 0, -1));
    same(4L, r.linsert("l", ListPosition.BEFORE, "b", "x"));
    same(2L, r.lpos("l", "b"));
    same("a", r.lmove("l", "m", ListDirection.LEFT, ListDirection.RIGHT));
    same(List.of("c", "b"), r.rpop("l", 2));
    same(List.of("x"), r.lmpop(ListDirection.LEFT, 5, "none", "l").getValue());
    same(null, r.lpop("none"));
  }

  static void sets(Jedis r) {
    same(3L, r.sadd("s", "a", "b", "c"));
    same(Set.of("a", "b", "c"), r.smembers("s"));
    same(List.of(true, false), r.smismember("s", "a", "x"));
    r.sadd("t", "c", "d");
    same(Set.of("c"), r.sinter("s", "t"));
    same(Set.of("a", "b"), r.sdiff("s", "t"));
    same(4L, r.sunionstore("u", "s", "t"));
    same(1L, r.sintercard("s", "t"));
    same(1L, r.smove("s", "t", "a"));
    same(2, r.spop("s", 5).size());
  }

  static void sortedSets(Jedis r) {
    same(2L, r.zadd("z", Map.of("a", 1.0, "b", 2.0)));
    same(1L, r.zadd("z", 3.5, "a", ZAddParams.zAddParams().gt().ch()));
    same(List.of(new Tuple("b", 2.0), new Tuple("a", 3.5)), r.zrangeWithScores("z", 0, -1));
    same(List.of("a"), r.zrangeByScore("z", "(2", "+inf"));
    same(1L, r.zrank("z", "a"));
    same(4.0, r.zincrby("z", 0.5, "a"));
    same("[4.0, null]", r.zmscore("z", "a", "x").toString());
    same(2L, r.zunionstore("u", "z", "z"));
    same(8.0, r.zscore("u", "a"));
    same(new Tuple("a", 4.0), r.zpopmax("z"));
    same(1L, r.zremrangeByRank("z", 0, -1));
  }

  static void blocking(Jedis r) {
    var served = new ArrayList<List<String>>();
    var thread = new Thread(() -> {
      try (Jedis other = connect(RedisProtocol.RESP2)) {
        served.add(other.blpop(10, "q1", "q2"));
      }
    });
    thread.start();
    while (!r.info("clients").contains("blocked_clients:1")) Thread.onSpinWait();
    r.rpush("q2", "job");
    try {
      thread.join();
    } catch (InterruptedException error) {
      throw new AssertionError(error);
    }
    same(List.of(List.of("q2", "job")), served);
    same(null, r.blmove("none", "x", ListDirection.LEFT, ListDirection.LEFT, 0.01));
  }

  static void transactions(Jedis r) {
    Transaction first = r.multi();
    first.set("n", "1");
    first.incr("n");
    same(List.of("OK", 2L), first.exec());
    try (Jedis other = connect(RedisProtocol.RESP2)) {
      r.watch("n");
      other.set("n", "9");
      Transaction second = r.multi();
      second.incr("n");
      same(null, second.exec());
    }
    Pipeline pipeline = r.pipelined();
    for (int i = 0; i < 1000; i++) pipeline.set("p" + i, "" + i);
    same(1000, pipeline.syncAndReturnAll().size());
    try {
      r.lpush("n", "1");
      throw new AssertionError("a wrong type must fail");
    } catch (JedisDataException error) {
      must(error.getMessage().startsWith("WRONGTYPE"), error.getMessage());
    }
  }

  static void scripts(Jedis r) {
    String sha = r.scriptLoad("return redis.call('incrby', KEYS[1], ARGV[1])");
    same(5L, r.evalsha(sha, List.of("n"), List.of("5")));
    same(List.of(true, false), r.scriptExists(sha, "0".repeat(40)));
    same("OK", r.scriptFlush());
    must(fails(() -> r.evalsha(sha, 1, "n", "1")).startsWith("NOSCRIPT"), "a flushed script");
    same(List.of(1L, "x"), r.eval("return {1.5, 'x'}"));
  }

  static void streams(Jedis r) {
    same("1-1", r.xadd("x", new StreamEntryID(1, 1), Map.of("a", "1")).toString());
    StreamEntryID start = new StreamEntryID(0, 0);
    same("OK", r.xgroupCreate("x", "g", start, false));
    same(1L, r.xinfoGroups("x").get(0).getGroupInfo().get("lag"));
    same(1L, r.xlen("x"));
    must(fails(() -> r.xgroupCreate("x", "g", start, false)).startsWith("BUSYGROUP"), "a group twice");
  }

  static void geography(Jedis r) {
    same(1L, r.geoadd("g", 13.361389, 38.115556, "Palermo"));
    same(List.of("sqc8b49rny0"), r.geohash("g", "Palermo"));
    same(1L, r.pfadd("p", "a", "b"));
    same(2L, r.pfcount("p"));
  }

  static void users(Jedis r) {
    same("OK", r.aclSetUser("tourist", "on", ">secret", "~app:*", "+@read"));
    same("default", r.aclWhoAmI());
    must(r.aclGetUser("tourist").getKeys().contains("~app:*"), "keys of a user");
    try (Jedis tourist = connect(RedisProtocol.RESP2)) {
      must(fails(() -> tourist.auth("tourist", "wrong")).startsWith("WRONGPASS"), "a wrong password");
      same("OK", tourist.auth("tourist", "secret"));
      must(fails(() -> tourist.get("other")).startsWith("NOPERM"), "another's key");
    }
    same(1L, r.aclDelUser("tourist"));
  }

  static String fails(Runnable call) {
    try {
      call.run();
    } catch (JedisDataException error) {
      return error.getMessage();
    }
    throw new AssertionError("it must fail");
  }

  static void administration(Jedis r) {
    same("PONG", r.ping());
    same("hi", r.echo("hi"));
    same("OK", r.clientSetname("tour"));
    same("tour", r.clientGetname());
    must(r.clientList().contains("name=tour"), "client list");
    must(r.info().contains("redis_version"), "info");
    same("OK", r.configSet("slowlog-max-len", "128"));
    same("128", r.configGet("slowlog-max-len").get("slowlog-max-len"));
    must(r.commandCount() > 100, "command count");
    must(r.slowlogLen() >= 0, "slowlog");
    same("OK", r.select(1));
    same(0L, r.dbSize());
    same("OK", r.select(0));
  }

  public static void main(String[] arguments) {
    Map<String, Consumer<Jedis>> tours = new java.util.LinkedHashMap<>();
    tours.put("strings", Tour::strings);
    tours.put("bitmaps", Tour::bitmaps);
    tours.put("keys", Tour::keys);
    tours.put("hashes", Tour::hashes);
    tours.put("lists", Tour::lists);
    tours.put("sets", Tour::sets);
    tours.put("sorted sets", Tour::sortedSets);
    tours.put("blocking", Tour::blocking);
    tours.put("scripts", Tour::scripts);
    tours.put("streams", Tour::streams);
    tours.put("geography", Tour::geography);
    tours.put("users", Tour::users);
    tours.put("transactions", Tour::transactions);
    tours.put("administration", Tour::administration);
    for (RedisProtocol protocol : new RedisProtocol[] {RedisProtocol.RESP2, RedisProtocol.RESP3}) {
      try (Jedis r = connect(protocol)) {
        tours.forEach((name, tour) -> {
          r.flushAll();
          tour.accept(r);
          System.out.println("jedis " + protocol + " " + name + ": ok");
        });
        r.flushAll();
      }
    }
  }
}
