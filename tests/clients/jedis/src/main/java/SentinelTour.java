import java.io.File;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.exceptions.JedisException;

/** A tour of servers under Sentinels with Jedis while they fail over: what was acknowledged is there. */
public class SentinelTour {
  static final int COUNTERS = 20;
  static final List<Integer> PORTS =
      Arrays.stream(System.getenv("SENTINEL_PORTS").split(",")).map(Integer::parseInt).toList();

  static void same(Object want, Object got) {
    if (!Objects.equals(want, got)) throw new AssertionError("want " + want + ", got " + got);
  }

  static int questions() {
    int primary = 0;
    for (int port : PORTS) {
      try (var sentinel = new Jedis("127.0.0.1", port)) {
        primary = Integer.parseInt(sentinel.sentinelGetMasterAddrByName("mymaster").get(1));
        Map<String, String> state = sentinel.sentinelMaster("mymaster");
        same("" + primary, state.get("port"));
        same(1, sentinel.sentinelMasters().size());
        same(2, sentinel.sentinelReplicas("mymaster").size());
        same(2, sentinel.sentinelSentinels("mymaster").size());
        same(40, sentinel.sentinelMyId().length());
        same("OK", sentinel.sentinelSet("mymaster", Map.of("parallel-syncs", "2")));
      }
    }
    return primary;
  }

  /** Writes until it is acknowledged: the server may be about to go. */
  static String untilDone(JedisSentinelPool pool, java.util.function.Function<Jedis, String> action) throws Exception {
    long end = System.currentTimeMillis() + 90_000;
    while (true) {
      try (var jedis = pool.getResource()) {
        return action.apply(jedis);
      } catch (JedisException error) {
        if (System.currentTimeMillis() > end) throw error;
        Thread.sleep(50);
      }
    }
  }

  static void writes(JedisSentinelPool pool) throws Exception {
    long round = 0;
    while (!new File(System.getenv("TOUR_END")).exists()) {
      round++;
      String value = "" + round;
      for (int i = 0; i < COUNTERS; i++) {
        String key = "counter:" + i;
        same("OK", untilDone(pool, jedis -> jedis.set(key, value)));
      }
    }
    same(true, round > 1);
    for (int i = 0; i < COUNTERS; i++) {
      String key = "counter:" + i;
      same("" + round, untilDone(pool, jedis -> jedis.get(key)));
    }
    same("master", untilDone(pool, jedis -> (String) jedis.role().get(0)));
  }

  public static void main(String[] arguments) throws Exception {
    Set<String> sentinels = PORTS.stream().map(port -> "127.0.0.1:" + port).collect(Collectors.toSet());
    int first = questions();
    var switches = java.util.Collections.synchronizedList(new java.util.ArrayList<String>());
    try (var pool = new JedisSentinelPool("mymaster", sentinels);
        var listener = new Jedis("127.0.0.1", PORTS.get(1), 0)) {
      same(first, pool.getCurrentHostMaster().getPort());
      var subscription = new JedisPubSub() {
        @Override
        public void onMessage(String channel, String message) {
          switches.add(message);
        }
      };
      var thread = new Thread(() -> listener.subscribe(subscription, "+switch-master"));
      thread.start();
      writes(pool);
      same(2, switches.size());
      same(true, switches.get(0).startsWith("mymaster 127.0.0.1 " + first + " "));
      int last = questions();
      same(true, switches.get(1).endsWith(" " + last));
      same(last, pool.getCurrentHostMaster().getPort());
      subscription.unsubscribe();
      thread.join();
    }
  }
}
