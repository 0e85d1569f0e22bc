"""Locks: redis-py's own, python-redis-lock and redlock-py, each against rivals of its own kind."""
import os
import threading
import time

import redis
import redis_lock
from redlock import Redlock

PORT = int(os.environ["REDIS_PORT"])
connection = redis.Redis(port=PORT)


def refused(call, *arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


def wait_until_gone(key):
    while connection.exists(key):
        time.sleep(0.005)


def increments(make_lock, key):
    """Threads that read, add and write behind a lock: none of them loses an addition."""

    def add():
        for _ in range(20):
            with make_lock():
                connection.set(key, int(connection.get(key) or 0) + 1)

    threads = [threading.Thread(target=add) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return connection.get(key)


def redis_py():
    lock = connection.lock("lock", timeout=60)
    rival = connection.lock("lock", timeout=60, blocking_timeout=0.02, sleep=0.01)
    print("taken", lock.acquire(), lock.owned(), lock.locked(), rival.acquire())
    print("rival frees", refused(rival.release), refused(connection.lock("lock").release))
    print("extended", lock.extend(60), 100 < connection.ttl("lock") <= 120)
    print("replaced", lock.extend(30, True), lock.reacquire(), 50 < connection.ttl("lock") <= 60)
    print("freed", lock.release(), connection.exists("lock"))
    short = connection.lock("short", timeout=0.05)
    print("short", short.acquire())
    wait_until_gone("short")
    print("ran out", [refused(call) for call in (short.release, short.reacquire)])
    print("stolen", short.acquire(), connection.set("short", "thief"), refused(lambda: short.extend(1)))
    print("sum", increments(lambda: connection.lock("section", timeout=30, sleep=0.001), "sum"))


def python_redis_lock():
    lock = redis_lock.Lock(connection, "job", expire=60, id="first")
    rival = redis_lock.Lock(connection, "job", expire=60, id="second")
    print("taken", lock.acquire(blocking=False), rival.acquire(blocking=False), rival.locked(), lock.get_owner_id())
    print("again", refused(lock.acquire), refused(rival.release), refused(rival.extend, 10))
    lock.extend(expire=120)
    print("extended", 100 < connection.ttl("lock:job") <= 120)
    waiter = threading.Thread(target=lambda: print("waiter", rival.acquire(timeout=30)))
    waiter.start()
    while not connection.info("clients")["blocked_clients"]:
        time.sleep(0.005)
    lock.release()
    waiter.join()
    print("owner", rival.get_owner_id())
    rival.reset()
    print("reset", rival.locked(), connection.type("lock-signal:job"))
    redis_lock.reset_all(connection)
    print("all", connection.keys("lock:*"))
    print("sum", increments(lambda: redis_lock.Lock(connection, "section", expire=30), "sum"))


def redlock_py():
    servers = [{"host": "localhost", "port": PORT, "db": db} for db in range(3)]
    manager = Redlock(servers, retry_count=1)
    lock = manager.lock("resource", 60_000)
    print("taken", bool(lock), lock.resource, manager.lock("resource", 60_000))
    print("freed", manager.unlock(lock), [redis.Redis(port=PORT, db=db).exists("resource") for db in range(3)])
    redis.Redis(port=PORT, db=1).set("resource", "somebody else")
    print("two of three", bool(manager.lock("resource", 60_000)))


def main():
    for part in (redis_py, python_redis_lock, redlock_py):
        connection.flushall()
        print(part.__name__)
        part()
