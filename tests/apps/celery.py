"""Celery: tasks, retries, chains, groups and chords through a worker of its own; broker and results on one server."""
import logging
import os
import time
from datetime import datetime, timedelta, timezone

from celery import Celery, chain, chord, group
from celery.contrib.testing.worker import start_worker
from celery.exceptions import TaskRevokedError, TimeoutError
from redis import Redis

PORT = os.environ["REDIS_PORT"]
app = Celery("work", broker=f"redis://localhost:{PORT}/0", backend=f"redis://localhost:{PORT}/1")
app.conf.update(
    broker_connection_retry_on_startup=True,
    result_extended=True,
    task_track_started=True,
    worker_hijack_root_logger=False,
    broker_transport_options={"priority_steps": list(range(10)), "queue_order_strategy": "priority"},
)
logging.disable(logging.CRITICAL)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task(bind=True, max_retries=5)
def stubborn(self, times):
    if self.request.retries < times:
        raise self.retry(countdown=0.01)
    return self.request.retries


@app.task
def fail(message):
    raise ValueError(message)


@app.task
def note(key, value):
    return Redis(port=int(PORT), db=2).rpush(key, value)


@app.task(ignore_result=True)
def forget(key):
    Redis(port=int(PORT), db=2).set(key, "done")


def get(result):
    try:
        return result.get(timeout=60)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def outcomes():
    results = [add.delay(n, n) for n in range(20)]
    print("sums", [get(result) for result in results])
    bad = fail.delay("on purpose")
    print("failed", get(bad), bad.state, bad.result)
    done = stubborn.delay(3)
    print("retried", get(done), done.state)
    forget.delay("forgotten")
    data = Redis(port=int(PORT), db=2)
    while not data.exists("forgotten"):
        time.sleep(0.01)
    kept = add.delay(1, 1)
    print("kept", get(kept), kept.name, kept.args, kept.forget(), kept.state)


def workflows():
    print("chain", get(chain(add.s(1, 2), add.s(10), add.s(100))()))
    print("group", get(group(add.s(n, 1) for n in range(10))()))
    print("chord", get(chord((add.s(n, n) for n in range(25)), total.s())()))
    print("chord of chains", get(chord([chain(add.s(n, 1), add.s(2)) for n in range(5)], total.s())()))
    print("broken chord", get(chord([add.s(1, 1), fail.s("in the middle")], total.s())()))
    print("map", get(add.starmap([(1, 2), (3, 4)]).delay()), get(add.chunks(zip(range(9), range(9)), 3)()))


def timing():
    later = add.apply_async((2, 2), countdown=0.3)
    print("countdown", get(later))
    expired = add.apply_async((2, 2), expires=datetime.now(timezone.utc) - timedelta(seconds=5))
    print("expired", type(wait_for_failure(expired)).__name__, expired.state)
    revoked = add.apply_async((2, 2), countdown=5)
    revoked.revoke()
    print("never", timed_out(app.AsyncResult("no such task")))
    revoked.forget()


def wait_for_failure(result):
    try:
        return result.get(timeout=30)
    except TaskRevokedError as error:
        return error


def timed_out(result):
    try:
        return result.get(timeout=0.1)
    except TimeoutError:
        return "timed out"


def remote_control():
    replies = app.control.ping(timeout=1)
    print("ping", [list(reply.values())[0] for reply in replies])
    registered = app.control.inspect(timeout=1).registered()
    print("registered", [sorted(n for n in names if n.startswith("work.")) for names in registered.values()])


def queues():
    """Without a worker: what waits, by priority, and what is purged."""
    for n in range(3):
        note.apply_async(("order", f"plain {n}"), priority=5)
        note.apply_async(("order", f"urgent {n}"), priority=0)
    broker = Redis(port=int(PORT), db=0)
    lists = sorted(key for key in broker.keys("celery*") if broker.type(key) == b"list")
    print("waiting", [(key, broker.llen(key)) for key in lists])
    with worker():
        data = Redis(port=int(PORT), db=2)
        while data.llen("order") < 6:
            time.sleep(0.01)
        print("order", [value.decode() for value in data.lrange("order", 0, -1)])
    for n in range(4):
        add.delay(n, n)
    print("purged", app.control.purge())


def worker():
    return start_worker(app, perform_ping_check=False, pool="solo", concurrency=1, loglevel="CRITICAL")


def main():
    with worker():
        for part in (outcomes, workflows, timing, remote_control):
            print(part.__name__, flush=True)
            part()
    queues()
    results = Redis(port=int(PORT), db=1)
    kinds = {results.type(key).decode() for key in results.scan_iter("celery-task-meta-*")}
    print("results", kinds, all(results.ttl(key) > 80000 for key in results.scan_iter("celery-task-meta-*")))
