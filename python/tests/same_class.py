"""The class beside resp-benchmark's own: signatures, attributes, what a load writes and what a run gives.

Usage: python same_class.py PORT, with both wheels installed and a server on PORT that holds nothing of value.
"""

import dataclasses
import inspect
import signal
import socket
import subprocess
import sys
import time

import martlet_bench
import resp_benchmark

PORT = int(sys.argv[1])
TEMPLATES = [
    "GET {key uniform 1000}",
    "GET {key zipfian 1000}",
    "GET {key sequence 1000}",
    "SET {key uniform 1000} {value 64}",
    "ZADD scores {rand 70000} {key uniform 10000}",
]


def ask(*words: str) -> bytes:
    request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.sendall(request.encode())
        return connection.recv(4096)


def signature(function) -> list:
    return [(p.name, p.default, p.annotation) for p in inspect.signature(function).parameters.values()]


def check(condition: bool, what: str) -> None:
    if not condition:
        sys.exit(f"FAILED: {what}")


for method in ["__init__", "bench", "load_data", "flushall"]:
    theirs, ours = (signature(getattr(m.Benchmark, method)) for m in (resp_benchmark, martlet_bench))
    check(theirs == ours, f"{method}: {theirs} is not {ours}")
fields = [[f.name for f in dataclasses.fields(m.Result)] for m in (resp_benchmark, martlet_bench)]
check(fields[0] == fields[1], f"Result: {fields}")
for cores in ["", "0", "0-1"]:
    attributes = [vars(m.Benchmark(port=PORT, cores=cores)) for m in (resp_benchmark, martlet_bench)]
    check(attributes[0] == attributes[1], f"attributes: {attributes}")
for module in (resp_benchmark, martlet_bench):
    benchmark = module.Benchmark(host="127.0.0.1", port=PORT, cores="0")
    benchmark.flushall()
    benchmark.load_data(command="SET {key sequence 1000} {value 64}", count=1000, connections=16, quiet=True)
    check(ask("DBSIZE") == b":1000\r\n", f"{module.__name__}: 1000 keys are loaded")
    check(ask("STRLEN", "key_0000000007") == b":64\r\n", f"{module.__name__}: values of 64 bytes")
    for template in TEMPLATES:
        result = benchmark.bench(template, seconds=1, connections=4, quiet=True)
        check(result.qps > 0 and result.avg_latency_ms > 0 and result.connections == 4, f"{template}: {result}")
        check(result.p99_latency_ms >= result.avg_latency_ms / 100, f"{template}: {result}")
for command, expected in [("GET {key foo 5}", "unknown distribution 'foo'"), ("INCR key_0000000001", "not an integer")]:
    try:
        martlet_bench.Benchmark(port=PORT).bench(command, seconds=1, connections=1, quiet=True)
        check(False, f"{command} raises nothing")
    except RuntimeError as error:
        check(expected in str(error), f"{command}: {error}")
# Ctrl-C ends a run, and a wait for a server that accepts connections and answers nothing.
silent = socket.create_server(("127.0.0.1", 0), backlog=16)
silent.settimeout(10)


def await_load() -> None:
    ask("FLUSHALL")
    limit = time.monotonic() + 10
    while ask("DBSIZE") == b":0\r\n" and time.monotonic() < limit:
        pass


for port, call, began in [
    (PORT, "bench('SET {key uniform 9} x', seconds=60, connections=2, quiet=True)", await_load),
    (PORT, "load_data('SET {key sequence 1000} x', count=10**12, quiet=True)", await_load),
    (silent.getsockname()[1], "flushall()", silent.accept),
    (silent.getsockname()[1], "bench('GET x', seconds=60, quiet=True)", silent.accept),
]:
    # The second call shows that the first interrupt does not end later runs.
    code = f'''
import martlet_bench
benchmark = martlet_bench.Benchmark(port={port})
try:
    benchmark.{call}
except KeyboardInterrupt:
    result = martlet_bench.Benchmark(port={PORT}).bench("PING", count=10, connections=1, quiet=True)
    print("interrupted", result.qps > 0)
'''
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    connection = began()
    run.send_signal(signal.SIGINT)
    try:
        output = run.communicate(timeout=5)[0]
    except subprocess.TimeoutExpired:
        run.kill()
        sys.exit(f"FAILED: {call} does not end by Ctrl-C")
    if connection:
        connection[0].close()
    check(output == "interrupted True\n", f"{call}: {output}")
print("the class is resp-benchmark's")
