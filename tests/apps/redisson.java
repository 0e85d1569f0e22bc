// Redisson: locks, semaphores, latches, rate limiters, maps that expire, queues, topics and batches.
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.api.stream.StreamAddArgs;
import org.redisson.api.stream.StreamCreateGroupArgs;
import org.redisson.api.stream.StreamReadGroupArgs;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.CompositeCodec;
import org.redisson.config.Config;

public class Work {
    static RedissonClient redisson;

    static void show(Object... words) {
        System.out.println(Arrays.toString(words));
    }

    static Object refused(Callable<?> call) {
        try {
            return call.call();
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    /** What a call gives on another thread, which owns none of this one's locks. */
    static Object elsewhere(Callable<?> call) throws Exception {
        Object[] answer = new Object[1];
        Thread thread = new Thread(() -> answer[0] = refused(call));
        thread.start();
        thread.join();
        return answer[0];
    }

    static void locks() throws Exception {
        RLock lock = redisson.getLock("lock");
        lock.lock(60, TimeUnit.SECONDS);
        lock.lock(60, TimeUnit.SECONDS);
        show("held", lock.getHoldCount(), lock.isHeldByCurrentThread(), elsewhere(lock::tryLock));
        show("not the owner", elsewhere(() -> { lock.unlock(); return "freed"; }));
        lock.unlock();
        show("still", lock.isLocked(), lock.remainTimeToLive() > 15_000);
        CountDownLatch waiting = new CountDownLatch(1);
        Thread waiter = new Thread(() -> {
            waiting.countDown();
            lock.lock();
            show("waiter has it");
            lock.unlock();
        });
        waiter.start();
        waiting.await();
        lock.unlock();
        waiter.join();
        show("free", lock.isLocked(), refused(() -> { lock.unlock(); return "freed"; }));
        RFencedLock fenced = redisson.getFencedLock("fenced");
        Long first = fenced.lockAndGetToken();
        fenced.unlock();
        show("fenced", fenced.lockAndGetToken() - first);
        fenced.unlock();
        RReadWriteLock both = redisson.getReadWriteLock("both");
        both.readLock().lock();
        show("read", elsewhere(() -> { both.readLock().lock(); both.readLock().unlock(); return "read too"; }),
            elsewhere(() -> both.writeLock().tryLock()));
        both.readLock().unlock();
        RLock several = redisson.getMultiLock(redisson.getLock("a"), redisson.getLock("b"));
        show("several", several.tryLock(), redisson.getLock("b").isLocked());
        several.unlock();
        RLock fair = redisson.getFairLock("fair");
        fair.lock();
        show("fair", elsewhere(() -> fair.tryLock(50, TimeUnit.MILLISECONDS)));
        fair.unlock();
        RAtomicLong sum = redisson.getAtomicLong("sum");
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            threads.add(new Thread(() -> {
                for (int n = 0; n < 20; n++) {
                    lock.lock();
                    sum.set(sum.get() + 1);
                    lock.unlock();
                }
            }));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        show("sum", sum.get());
    }

    static void synchronizers() throws Exception {
        RSemaphore semaphore = redisson.getSemaphore("semaphore");
        show("permits", semaphore.trySetPermits(3), semaphore.tryAcquire(2), semaphore.tryAcquire(2));
        semaphore.release(2);
        show("released", semaphore.availablePermits(), semaphore.drainPermits());
        RPermitExpirableSemaphore brief = redisson.getPermitExpirableSemaphore("brief");
        brief.trySetPermits(1);
        String permit = brief.tryAcquire(0, 60, TimeUnit.SECONDS);
        show("expirable", permit != null, brief.tryAcquire());
        brief.release(permit);
        show("again", brief.availablePermits());
        RCountDownLatch latch = redisson.getCountDownLatch("latch");
        latch.trySetCount(2);
        Thread waiter = new Thread(() -> refused(() -> { latch.await(); show("latch open"); return null; }));
        waiter.start();
        latch.countDown();
        latch.countDown();
        waiter.join();
        RRateLimiter limiter = redisson.getRateLimiter("limiter");
        show("rate", limiter.trySetRate(RateType.OVERALL, 3, Duration.ofSeconds(60)));
        show("limited", limiter.tryAcquire(2), limiter.tryAcquire(2), limiter.tryAcquire(1));
        show("rest", limiter.availablePermits());
        RIdGenerator ids = redisson.getIdGenerator("ids");
        ids.tryInit(100, 10);
        List<Long> given = new ArrayList<>();
        for (int i = 0; i < 12; i++) given.add(ids.nextId());
        show("ids", given);
        RAtomicDouble real = redisson.getAtomicDouble("real");
        show("double", real.addAndGet(1.5), real.compareAndSet(1.5, 2.25), real.getAndSet(0.1), real.get());
    }

    static void collections() throws Exception {
        RMapCache<String, String> cache = redisson.getMapCache("cache", StringCodec.INSTANCE);
        show("put", cache.put("a", "1", 60, TimeUnit.SECONDS), cache.putIfAbsent("a", "2"), cache.put("b", "3"));
        show("left", cache.remainTimeToLive("a") > 30_000, cache.remainTimeToLive("b"), cache.remainTimeToLive("c"));
        show("changed", cache.replace("a", "1", "5"), cache.get("a"), cache.remove("b", "9"), cache.size());
        cache.put("brief", "x", 30, TimeUnit.MILLISECONDS);
        while (cache.containsKey("brief")) Thread.sleep(5);
        show("expired", cache.get("brief"), new TreeSet<>(cache.readAllKeySet()));
        show("computed", cache.merge("a", "!", String::concat), cache.computeIfAbsent("d", key -> key + key));
        RMap<String, Integer> map =
            redisson.getMap("map", new CompositeCodec(StringCodec.INSTANCE, IntegerCodec.INSTANCE));
        show("map", map.fastPut("n", 1), map.addAndGet("n", 5), map.putIfExists("m", 1), map.fastRemove("n", "m"));
        RSetCache<String> set = redisson.getSetCache("set", StringCodec.INSTANCE);
        show("set", set.add("x", 60, TimeUnit.SECONDS), set.add("x"), set.contains("x"), set.size());
        RScoredSortedSet<String> scores = redisson.getScoredSortedSet("scores", StringCodec.INSTANCE);
        scores.add(1.5, "a");
        scores.add(-2, "b");
        show("scores", scores.addScore("b", 10), scores.rank("b"), scores.valueRange(0, -1), scores.pollFirst());
        RList<String> list = redisson.getList("list", StringCodec.INSTANCE);
        list.addAll(List.of("a", "b", "c", "b"));
        list.add(1, "inserted");
        show("list", list.remove("b"), list.remove(0), list.indexOf("c"), list.lastIndexOf("b"), list.readAll());
        RBitSet bits = redisson.getBitSet("bits");
        show("bits", bits.set(9), bits.cardinality(), bits.length());
        RBloomFilter<String> bloom = redisson.getBloomFilter("bloom", StringCodec.INSTANCE);
        show("bloom", bloom.tryInit(1000, 0.01), bloom.add("a"), bloom.add("a"), bloom.contains("b"));
        RGeo<String> geo = redisson.getGeo("geo", StringCodec.INSTANCE);
        geo.add(13.361389, 38.115556, "Palermo");
        geo.add(15.087269, 37.502669, "Catania");
        show("geo", geo.dist("Palermo", "Catania", GeoUnit.METERS), geo.hash("Palermo"));
        RHyperLogLog<String> distinct = redisson.getHyperLogLog("distinct");
        show("distinct", distinct.addAll(List.of("a", "b", "a")), distinct.count());
    }

    static void queues() throws Exception {
        RBlockingQueue<String> queue = redisson.getBlockingQueue("queue", StringCodec.INSTANCE);
        RDelayedQueue<String> delayed = redisson.getDelayedQueue(queue);
        delayed.offer("later", 100, TimeUnit.MILLISECONDS);
        delayed.offer("soon", 20, TimeUnit.MILLISECONDS);
        show("delayed", queue.poll(30, TimeUnit.SECONDS), queue.poll(30, TimeUnit.SECONDS));
        delayed.destroy();
        RBoundedBlockingQueue<String> bounded = redisson.getBoundedBlockingQueue("bounded", StringCodec.INSTANCE);
        show("bounded", bounded.trySetCapacity(1), bounded.offer("a"), bounded.offer("b"), bounded.poll());
        RPriorityQueue<Integer> priority = redisson.getPriorityQueue("priority");
        priority.addAll(List.of(3, 1, 2));
        show("priority", priority.poll(), priority.poll(), priority.poll(), priority.poll());
        RRingBuffer<String> ring = redisson.getRingBuffer("ring", StringCodec.INSTANCE);
        ring.trySetCapacity(2);
        ring.addAll(List.of("a", "b", "c"));
        show("ring", ring.readAll(), ring.remainingCapacity());
        RStream<String, String> stream = redisson.getStream("stream", StringCodec.INSTANCE);
        stream.createGroup(StreamCreateGroupArgs.name("group").makeStream());
        StreamMessageId id = stream.add(StreamAddArgs.entry("k", "v"));
        var read = stream.readGroup("group", "me", StreamReadGroupArgs.neverDelivered());
        show("stream", read.get(id), stream.getPendingInfo("group").getTotal(), stream.ack("group", id));
    }

    static void messages() throws Exception {
        RTopic topic = redisson.getTopic("topic", StringCodec.INSTANCE);
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        topic.addListener(String.class, (channel, text) -> heard.add(channel + ": " + text));
        show("receivers", topic.publish("one"), topic.publish("two"));
        show("heard", new TreeSet<>(List.of(heard.take(), heard.take())));
        RReliableTopic reliable = redisson.getReliableTopic("reliable", StringCodec.INSTANCE);
        reliable.addListener(String.class, (channel, text) -> heard.add(channel + ": " + text));
        show("subscribers", reliable.publish("kept"));
        show("reliable", heard.take());
        reliable.removeAllListeners();
    }

    static void batches() {
        BatchOptions options = BatchOptions.defaults();
        options.executionMode(BatchOptions.ExecutionMode.IN_MEMORY_ATOMIC);
        RBatch batch = redisson.createBatch(options);
        batch.getAtomicLong("n").incrementAndGetAsync();
        batch.getAtomicLong("n").addAndGetAsync(5);
        batch.getBucket("text", StringCodec.INSTANCE).setAsync("x");
        show("batch", batch.execute().getResponses());
        RScript script = redisson.getScript(StringCodec.INSTANCE);
        String lua = "return {KEYS[1], ARGV[1], redis.call('get', KEYS[1])}";
        List<Object> keys = List.of("text");
        Object answer = script.eval(RScript.Mode.READ_WRITE, lua, RScript.ReturnType.MULTI, keys, "argument");
        show("script", answer);
        RTransaction transaction = redisson.createTransaction(TransactionOptions.defaults());
        transaction.getMap("accounts", StringCodec.INSTANCE).put("a", "1");
        show("before", redisson.getMap("accounts", StringCodec.INSTANCE).size());
        transaction.commit();
        show("after", redisson.getMap("accounts", StringCodec.INSTANCE).readAllMap());
        RBucket<String> bucket = redisson.getBucket("text", StringCodec.INSTANCE);
        show("bucket", bucket.compareAndSet("x", "y"), bucket.getAndSet("z"), bucket.setIfAbsent("q"));
        show("deleted", bucket.getAndDelete());
        show("keys", new TreeSet<>(redisson.getKeys().getKeysStream().toList()));
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://localhost:" + System.getenv("REDIS_PORT"));
        redisson = Redisson.create(config);
        locks();
        synchronizers();
        collections();
        queues();
        messages();
        batches();
        redisson.shutdown();
    }
}
