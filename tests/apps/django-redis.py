"""django-redis: Django's cache and its sessions, with versions, patterns, locks, compression and expiry."""
import os
import threading

import django
from django.conf import settings

URL = f"redis://localhost:{os.environ['REDIS_PORT']}"


def cache_of(database, **options):
    return {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"{URL}/{database}",
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient", **options},
    }


settings.configure(
    CACHES={
        "default": cache_of(1),
        "json": cache_of(2, SERIALIZER="django_redis.serializers.json.JSONSerializer"),
        "zlib": cache_of(3, COMPRESSOR="django_redis.compressors.zlib.ZlibCompressor"),
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    SECRET_KEY="none",
    USE_TZ=True,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache, caches  # noqa: E402
from django_redis import get_redis_connection  # noqa: E402


def refused(call, *arguments, **named):
    try:
        return call(*arguments, **named)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def values(cache):
    for value in (1, 1.5, "text", "ü", None, True, [1, {"a": "b"}], "x" * 5000):
        print("value", cache.set("k", value), cache.get("k") == value)
    print("missing", cache.get("nothing", "default"), cache.get_or_set("made", lambda: 7, 50), cache.get("made"))
    print("add", cache.add("once", 1, 50), cache.add("once", 2, 50), cache.get("once"))
    print("many", cache.set_many({"a": 1, "b": 2, "c": 3}), cache.get_many(["a", "c", "none"]))
    print("deleted", cache.delete("a"), cache.delete("a"), cache.delete_many(["b", "c", "none"]))
    print("count", cache.set("n", 5), cache.incr("n"), cache.incr("n", 10), cache.decr("n", 3), cache.get("n"))
    print("no count", refused(cache.incr, "nothing"), cache.has_key("n"), "n" in cache)


def expiry():
    print("ttl", cache.set("t", 1, timeout=100), 90 < cache.ttl("t") <= 100, 90000 < cache.pttl("t") <= 100000)
    print("persist", cache.persist("t"), cache.ttl("t"), cache.ttl("nothing"), cache.expire("t", 50), cache.ttl("t"))
    print("touch", cache.touch("t", 200), cache.ttl("t") > 150, cache.touch("nothing", 5))
    print("pexpire", cache.pexpire("t", 5000), 0 < cache.pttl("t") <= 5000)
    print("at once", cache.set("t", 2, timeout=0), cache.get("t"), cache.set("u", 3, timeout=None), cache.ttl("u"))
    print("nx, xx", cache.set("u", 4, nx=True), cache.set("v", 1, xx=True), cache.set("u", 5, xx=True), cache.get("u"))


def versions_and_patterns():
    for n in range(30):
        cache.set(f"item:{n}", n)
    cache.set("item:1", "second", version=2)
    print("versions", cache.get("item:1"), cache.get("item:1", version=2))
    print("next version", cache.incr_version("item:2"), cache.get("item:2"))
    print("keys", len(cache.keys("item:*")), len(list(cache.iter_keys("item:1*", itersize=5))))
    print("pattern", cache.delete_pattern("item:1*"), sorted(cache.keys("item:*"))[:3])
    print("raw", sorted(get_redis_connection().keys("*item:1*")))


def structures():
    print("sets", cache.sadd("s", 1, 2, 3), cache.sadd("r", 3, 4), sorted(cache.smembers("s")), cache.scard("s"))
    print("algebra", cache.sinter("s", "r"), sorted(cache.sunion("s", "r")), sorted(cache.sdiff("s", "r")))
    print("members", cache.sismember("s", 1), cache.smismember("s", 1, 9), cache.srem("s", 1), cache.smove("s", "r", 2))
    print("hashes", cache.hset("h", "f", [1]), cache.hlen("h"), cache.hkeys("h"), cache.hexists("h", "f"))
    print("hash fields", cache.hdel("h", "f"), cache.hexists("h", "f"))


def locks():
    with cache.lock("section", timeout=50):
        print("held", cache.lock("section", timeout=50).acquire(blocking=False))

    def add():
        for _ in range(20):
            with caches["default"].lock("counter", timeout=50, sleep=0.001):
                cache.set("locked", cache.get("locked", 0) + 1)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("counted", cache.get("locked"))


def sessions():
    session = SessionStore()
    session["user"] = {"name": "sand martin", "visits": 1}
    session.set_expiry(3600)
    session.save()
    again = SessionStore(session_key=session.session_key)
    print("session", again["user"], again.get_expiry_age(), again.exists(session.session_key))
    old = again.session_key
    again.cycle_key()
    again.save()
    print("cycled", SessionStore(session_key=old).get("user"), SessionStore(session_key=again.session_key).get("user"))
    again.flush()
    print("flushed", again.is_empty(), cache.keys("django.contrib.sessions*"))


def main():
    for name in ("default", "json", "zlib"):
        print(name)
        values(caches[name])
    for part in (expiry, versions_and_patterns, structures, locks, sessions):
        print(part.__name__)
        part()
    print("cleared", cache.clear(), cache.keys("*"), len(caches["json"].keys("*")) > 0)
