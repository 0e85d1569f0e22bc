"""A tour of servers under Sentinels with redis-py while they fail over: what was acknowledged is there."""

import os
import time

import redis
from redis.sentinel import Sentinel

PORTS = [int(port) for port in os.environ["SENTINEL_PORTS"].split(",")]
END = os.environ["TOUR_END"]
COUNTERS = 20


def questions(sentinels):
    port = sentinels.discover_master("mymaster")[1]
    assert len(sentinels.discover_slaves("mymaster")) == 2
    assert port not in [address[1] for address in sentinels.discover_slaves("mymaster")]
    for sentinel in sentinels.sentinels:
        state = sentinel.sentinel_master("mymaster")
        assert (state["port"], state["quorum"], state["num-slaves"]) == (port, 2, 2), state
        assert state["is_master"] and not state["is_odown"]
        assert list(sentinel.sentinel_masters()) == ["mymaster"]
        assert len(sentinel.sentinel_slaves("mymaster")) == 2
        assert len(sentinel.sentinel_sentinels("mymaster")) == 2
        assert sentinel.sentinel_get_master_addr_by_name("mymaster") == ("127.0.0.1", port)
        assert sentinel.sentinel_get_master_addr_by_name("nobody") is None
        sentinel.sentinel_ckquorum("mymaster")  # Raises an error without a quorum.
        assert sentinel.sentinel_set("mymaster", "parallel-syncs", 2)
    return port


def switches(sentinels):
    subscriber = sentinels.sentinels[1].pubsub()
    subscriber.subscribe("+switch-master")
    assert subscriber.get_message(timeout=5)["type"] == "subscribe"
    return subscriber


def until_done(do):
    """What a client does whose server may be about to go: again until it is acknowledged."""
    end = time.monotonic() + 90
    while True:
        try:
            return do()
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, redis.exceptions.ResponseError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def writes(primary, replica):
    round_ = 0
    while not os.path.exists(END):
        round_ += 1
        for i in range(COUNTERS):
            assert until_done(lambda: primary.set(f"counter:{i}", round_)) is True
    assert round_ > 1
    assert [until_done(lambda: primary.get(f"counter:{i}")) for i in range(COUNTERS)] == [str(round_)] * COUNTERS
    assert until_done(lambda: primary.execute_command("ROLE"))[0] == "master"
    assert until_done(lambda: replica.execute_command("ROLE"))[0] == "slave"
    assert until_done(lambda: replica.get("counter:0")) == str(round_)


OPTIONS = {"decode_responses": True, "socket_timeout": 5}
sentinels = Sentinel([("127.0.0.1", port) for port in PORTS], sentinel_kwargs=OPTIONS, **OPTIONS)
first = questions(sentinels)
subscriber = switches(sentinels)
writes(sentinels.master_for("mymaster"), sentinels.slave_for("mymaster"))
told = [subscriber.get_message(timeout=5)["data"].split(" ") for _ in range(2)]
assert [words[0] for words in told] == ["mymaster", "mymaster"]
assert int(told[0][2]) == first and told[0][4] == told[1][2]
assert int(told[1][4]) == questions(sentinels)
