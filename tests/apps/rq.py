"""RQ: jobs that succeed, fail, are retried, wait for others, are scheduled, cancelled and run again."""
import logging
import os
import time
from datetime import timedelta

from redis import Redis
from rq import Queue, Retry, SimpleWorker
from rq.job import Job
from rq.registry import (
    CanceledJobRegistry,
    DeferredJobRegistry,
    FailedJobRegistry,
    FinishedJobRegistry,
    ScheduledJobRegistry,
    StartedJobRegistry,
)

logging.disable(logging.CRITICAL)
connection = Redis(port=int(os.environ["REDIS_PORT"]))


def add(a, b):
    return a + b


def fail(message):
    raise ValueError(message)


def fail_until(key, times):
    """Fails until it has been tried so often."""
    tries = connection.incr(key)
    if tries < times:
        raise RuntimeError(f"try {tries}")
    return tries


def sleep(seconds):
    time.sleep(seconds)


def append(key, value):
    return connection.rpush(key, value)


def show(title, *jobs):
    for job in jobs:
        job.refresh()
        result = job.latest_result()
        kind = result.type.name if result else None
        last = (result.exc_string or "").strip().splitlines()[-1:] if result else []
        value = job.return_value() if kind == "SUCCESSFUL" else None
        print(title, job.id, job.get_status().value, kind, value, last)


def work(queues, **options):
    return SimpleWorker(queues, connection=connection).work(burst=True, **options)


def registries(queue):
    kinds = [
        StartedJobRegistry,
        FinishedJobRegistry,
        FailedJobRegistry,
        DeferredJobRegistry,
        ScheduledJobRegistry,
        CanceledJobRegistry,
    ]
    for kind in kinds:
        print("registry", queue.name, kind.__name__, sorted(kind(queue=queue).get_job_ids()))


def outcomes(queue):
    good = queue.enqueue(add, 1, 2, job_id="good")
    bad = queue.enqueue(fail, "on purpose", job_id="bad")
    slow = queue.enqueue(sleep, 30, job_id="slow", job_timeout=1)
    print("waiting", queue.job_ids, len(queue))
    print("worked", work([queue]))
    show("outcome", good, bad, slow)
    registries(queue)
    print("requeued", FailedJobRegistry(queue=queue).requeue("bad").get_status().value)
    work([queue])
    show("again", bad)


def retries(queue):
    job = queue.enqueue(fail_until, "tries", 3, retry=Retry(max=3), job_id="stubborn")
    work([queue])
    show("retried", job)


def dependencies(queue):
    first = queue.enqueue(append, "order", "first", job_id="first")
    second = queue.enqueue(append, "order", "second", job_id="second", depends_on=first)
    third = queue.enqueue(append, "order", "third", job_id="third", depends_on=[first, second])
    broken = queue.enqueue(fail, "no", job_id="broken")
    never = queue.enqueue(append, "order", "never", job_id="never", depends_on=broken)
    registries(queue)
    work([queue])
    show("dependency", first, second, third, broken, never)
    print("order", connection.lrange("order", 0, -1))


def batches(queue):
    prepared = [Queue.prepare_data(add, (n, n), job_id=f"batch-{n}") for n in range(20)]
    with connection.pipeline() as pipeline:
        jobs = queue.enqueue_many(prepared, pipeline=pipeline)
        pipeline.execute()
    print("batch", queue.job_ids)
    work([queue])
    print("batch", [job.return_value() for job in jobs])


def scheduled(queue):
    job = queue.enqueue_in(timedelta(hours=1), add, 3, 4, job_id="later")
    print("scheduled", job.get_status().value, ScheduledJobRegistry(queue=queue).get_job_ids())
    cancelled = queue.enqueue(add, 5, 6, job_id="cancelled")
    cancelled.cancel()
    print("cancelled", cancelled.get_status().value, queue.job_ids)
    registries(queue)
    job.delete()
    print("deleted", Job.exists("later", connection=connection))


def priorities():
    low, high = Queue("low", connection=connection), Queue("high", connection=connection)
    for n in range(3):
        low.enqueue(append, "priority", f"low {n}")
        high.enqueue(append, "priority", f"high {n}")
    work([high, low])
    print("priority", connection.lrange("priority", 0, -1))
    low.enqueue(add, 1, 1)
    print("emptied", low.empty(), low.is_empty(), sorted(q.name for q in Queue.all(connection=connection)))


def main():
    queue = Queue("default", connection=connection)
    outcomes(queue)
    retries(queue)
    dependencies(queue)
    batches(queue)
    scheduled(queue)
    priorities()
    print("types", sorted({connection.type(key).decode() for key in connection.scan_iter("rq:*")}))
