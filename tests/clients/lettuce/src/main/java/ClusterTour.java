import io.lettuce.core.LettuceFutures;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Map;
import java.util.Objects;

/** A tour of a cluster with Lettuce while slots move and a replica takes over: what was counted is there. */
public class ClusterTour {
  static final int PORT = Integer.parseInt(System.getenv("REDIS_PORT"));
  static final int COUNTERS = 200;

  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  static void commands(StatefulRedisClusterConnection<String, String> connection) {
    var r = connection.sync();
    same(6, connection.getPartitions().size());
    // Keys of many slots: Lettuce sends a request to each node.
    var pairs = new java.util.HashMap<String, String>();
    for (int i = 0; i < 100; i++) pairs.put("key:" + i, "" + i);
    same("OK", r.mset(pairs));
    for (int i = 0; i < 100; i++) same("" + i, r.get("key:" + i));
    same(2L, r.exists("key:1", "key:2"));
    same("OK", r.mset(Map.of("{tag}a", "1", "{tag}b", "2")));
    String script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
    same(6L, r.eval(script, ScriptOutputType.INTEGER, new String[] {"{tag}a"}, "5"));
    try {
      r.rename("{one}a", "{two}a");
      throw new AssertionError("keys of two slots must be refused");
    } catch (RedisCommandExecutionException expected) {
      same(true, expected.getMessage().startsWith("CROSSSLOT"));
    }
    var replies = new ArrayList<RedisFuture<Long>>();
    for (int i = 0; i < 100; i++) replies.add(connection.async().incr("piped:" + i));
    same(true, LettuceFutures.awaitAll(Duration.ofSeconds(10), replies.toArray(new RedisFuture[0])));
    same(0L, r.spublish("channel", "hello"));
    connection.setReadFrom(ReadFrom.REPLICA);
    while (!"6".equals(r.get("{tag}a"))) Thread.onSpinWait();
    connection.setReadFrom(ReadFrom.UPSTREAM);
  }

  static void counts(StatefulRedisClusterConnection<String, String> connection) {
    var r = connection.sync();
    long rounds = 0;
    while (!new File(System.getenv("TOUR_END")).exists()) {
      rounds++;
      for (int i = 0; i < COUNTERS; i++) same(rounds, r.incr("counter:" + i));
    }
    same(true, rounds > 0);
    for (int i = 0; i < COUNTERS; i++) same("" + rounds, r.get("counter:" + i));
  }

  public static void main(String[] arguments) {
    var client = RedisClusterClient.create("redis://127.0.0.1:" + PORT);
    var refresh = ClusterTopologyRefreshOptions.builder().enableAllAdaptiveRefreshTriggers().build();
    client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh).maxRedirects(16).build());
    try (var connection = client.connect()) {
      commands(connection);
      counts(connection);
    }
    client.shutdown();
  }
}
