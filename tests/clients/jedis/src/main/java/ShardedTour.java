import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisSharding;

/** A tour of single servers over which Jedis spreads keys by itself. */
public class ShardedTour {
  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  public static void main(String[] arguments) {
    List<HostAndPort> shards =
        Arrays.stream(System.getenv("REDIS_PORTS").split(","))
            .map(port -> new HostAndPort("127.0.0.1", Integer.parseInt(port)))
            .toList();
    try (var r = new JedisSharding(shards)) {
      for (int i = 0; i < 300; i++) same("OK", r.set("key:" + i, "" + i));
      for (int i = 0; i < 300; i++) same("" + i, r.get("key:" + i));
      same(2L, r.rpush("list", "a", "b"));
      same(List.of("a", "b"), r.lrange("list", 0, -1));
      same(1L, r.hset("hash", "field", "value"));
      same(6L, r.incrBy("key:5", 1));
      same(5L, r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", List.of("sum"), List.of("5")));
      try (var pipe = r.pipelined()) {
        var replies = java.util.stream.IntStream.range(0, 300).mapToObj(i -> pipe.incr("piped:" + i)).toList();
        pipe.sync();
        for (var reply : replies) same(1L, reply.get());
      }
    }
    long total = 0;
    for (HostAndPort shard : shards) {
      try (var one = new Jedis(shard)) {
        long size = one.dbSize();
        if (size < 100) throw new AssertionError(shard + " has " + size + " keys");
        total += size;
      }
    }
    same(603L, total);
  }
}
