import java.io.File;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisClusterOperationException;
import redis.clients.jedis.exceptions.JedisDataException;

/** A tour of a cluster with Jedis while slots move and a replica takes over: what was counted is there. */
public class ClusterTour {
  static final int PORT = Integer.parseInt(System.getenv("REDIS_PORT"));
  static final int COUNTERS = 200;

  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  static void commands(JedisCluster r) {
    same(6, r.getClusterNodes().size());
    for (int i = 0; i < 100; i++) same("OK", r.set("key:" + i, "" + i));
    for (int i = 0; i < 100; i++) same("" + i, r.get("key:" + i));
    same("OK", r.mset("{tag}a", "1", "{tag}b", "2"));
    same(List.of("1", "2"), r.mget("{tag}a", "{tag}b"));
    same(6L, r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", List.of("{tag}a"), List.of("5")));
    try {
      r.mget("{one}a", "{two}a");
      throw new AssertionError("keys of two slots must be refused");
    } catch (JedisClusterOperationException | JedisDataException expected) {
      // Jedis refuses some by itself.
    }
    try (var pipe = r.pipelined()) {
      var replies = java.util.stream.IntStream.range(0, 100).mapToObj(i -> pipe.incr("piped:" + i)).toList();
      pipe.sync();
      for (var reply : replies) same(1L, reply.get());
    }
    same(0L, r.spublish("channel", "hello"));
  }

  static void counts(JedisCluster r) {
    long rounds = 0;
    while (!new File(System.getenv("TOUR_END")).exists()) {
      rounds++;
      for (int i = 0; i < COUNTERS; i++) same(rounds, r.incr("counter:" + i));
    }
    same(true, rounds > 0);
    for (int i = 0; i < COUNTERS; i++) same("" + rounds, r.get("counter:" + i));
  }

  public static void main(String[] arguments) {
    try (var r = new JedisCluster(new HostAndPort("127.0.0.1", PORT))) {
      commands(r);
      counts(r);
    }
  }
}
