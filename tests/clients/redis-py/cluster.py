"""A tour of a cluster with redis-py while slots move and a replica takes over: what was counted is there."""

import os

import redis
from redis.cluster import RedisCluster

PORT = int(os.environ["REDIS_PORT"])
END = os.environ["TOUR_END"]
COUNTERS = 200


def commands(r):
    assert len(r.get_primaries()) == 3 and len(r.get_replicas()) == 3
    for i in range(100):
        assert r.set(f"key:{i}", i) is True
    assert [r.get(f"key:{i}") for i in range(100)] == [str(i) for i in range(100)]
    assert r.mset_nonatomic({f"key:{i}": -i for i in range(100)})
    assert r.mget_nonatomic([f"key:{i}" for i in range(3)]) == ["0", "-1", "-2"]
    assert r.mset({"{tag}a": 1, "{tag}b": 2}) and r.mget("{tag}a", "{tag}b") == ["1", "2"]
    assert r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "{tag}a", 5) == 6
    try:
        r.rename("{one}a", "{two}a")
        raise AssertionError("keys of two slots must be refused")
    except (redis.exceptions.RedisClusterException, redis.exceptions.ResponseError):
        pass
    with r.pipeline() as pipe:
        for i in range(100):
            pipe.set(f"piped:{i}", i)
        assert pipe.execute() == [True] * 100
    assert len(set(r.scan_iter("piped:*", count=10))) == 100
    reader = RedisCluster(host="127.0.0.1", port=PORT, decode_responses=True, read_from_replicas=True)
    assert r.wait(1, 10000, target_nodes=r.get_node_from_key("{tag}a")) == 1
    assert reader.get("{tag}b") == "2" and reader.get("{tag}b") == "2"
    subscriber = r.pubsub()
    subscriber.ssubscribe("channel")
    assert message(subscriber)["type"] == "ssubscribe"
    assert r.spublish("channel", "hello") == 1
    assert message(subscriber)["data"] == "hello"
    subscriber.close()


def message(subscriber):
    while True:
        found = subscriber.get_sharded_message(timeout=1)
        if found is not None:
            return found


def counts(r):
    counted = [0] * COUNTERS
    while not os.path.exists(END):
        for i in range(COUNTERS):
            counted[i] = r.incr(f"counter:{i}")
    assert counted[0] > 0
    assert [int(r.get(f"counter:{i}")) for i in range(COUNTERS)] == counted
    assert len(set(counted)) == 1, "an INCR was done twice, or not at all"


cluster = RedisCluster(host="127.0.0.1", port=PORT, decode_responses=True)
commands(cluster)
counts(cluster)
