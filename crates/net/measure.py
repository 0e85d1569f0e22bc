#!/usr/bin/env python3
"""Server CPU time per request (user + system, in µs), on a machine that others may use too.

Servers run on core 0 and take turns; redis-benchmark loads one of them from core 1 for a fraction of a second at a time. A turn
counts as clean when nothing else used core 0 meanwhile: what runs in a server's gaps costs it its caches and
every sleep a full context switch, which more than doubles the figures at P=1. Medians of clean turns are
printed, with the least of all turns beside them.

With --busy (as root), a thread that spins is put into each server, below it in real-time priority and above everybody
else: it stands for the idle core, keeps others off it, and is not counted. Then every turn counts.

    measure.py [--busy] [--depths 1,16,64] [--turns 9] [--seconds 60] [--clients 50] [--test set] NAME=COMMAND...

COMMAND gets the port as its last word:
    measure.py 'uring=target/release/examples/null --uring' 'redis=redis-server --save  --port'
"""
import argparse, os, signal, socket, statistics, subprocess, tempfile, time

TICK = 1 / os.sysconf("SC_CLK_TCK")


SPINNER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
static void *spin(void *unused) {
    struct sched_param priority = {.sched_priority = 1};
    pthread_setname_np(pthread_self(), "spinner");
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
    for (;;) __builtin_ia32_pause();
    return unused;
}
__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, 0, spin, 0);
}
"""


def build_spinner(folder):
    source, library = f"{folder}/spinner.c", f"{folder}/spinner.so"
    with open(source, "w") as file:
        file.write(SPINNER)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-lpthread"], check=True)
    return library


def cpu_seconds(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as comm:
            if comm.read().strip() == "spinner":
                continue
        with open(f"/proc/{pid}/task/{task}/schedstat") as stat:
            total += int(stat.read().split()[0])
    return total / 1e9


def sleeps(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


def core_busy_seconds(core):
    with open("/proc/stat") as stat:
        for line in stat:
            fields = line.split()
            if fields[0] == f"cpu{core}":
                user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[1:9])
                return (user + nice + system + irq + softirq + steal) * TICK
    raise SystemExit("no such core")


def start(command, port, spinner):
    words = ["taskset", "-c", "0", *command.split(" "), str(port)]
    if spinner:
        words = ["chrt", "-f", "2", "env", f"LD_PRELOAD={spinner}", *words]
    log = subprocess.DEVNULL
    process = subprocess.Popen(words, stdout=log, stderr=log)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return process
        except OSError:
            time.sleep(0.01)
    raise SystemExit(f"{command}: does not listen on {port}")


def load(port, args, depth, requests):
    words = [*(["chrt", "-f", "2"] if args.busy else []), "timeout", "-k", "1", "30", "taskset", "-c", "1", "redis-benchmark", "-p", port, "-c", args.clients, "-d", 64, "-r", 100000,
             "-n", requests, "-P", depth, "-t", args.test, "-q"]
    subprocess.run([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def turn(pid, port, args, depth, requests):
    """One turn: (µs of CPU per request, requests per second, sleeps per request, whether it was clean)."""
    if args.busy:
        os.kill(pid, signal.SIGCONT)
    slept, cpu, busy, clock = sleeps(pid), cpu_seconds(pid), core_busy_seconds(0), time.monotonic()
    load(port, args, depth, requests)
    if args.busy:
        os.kill(pid, signal.SIGSTOP)
    clock = time.monotonic() - clock
    slept, cpu, busy = sleeps(pid) - slept, cpu_seconds(pid) - cpu, core_busy_seconds(0) - busy
    return cpu / requests * 1e6, requests / clock, slept / requests, args.busy or busy - cpu < 0.06 * clock + TICK


def wait_for_quiet(deadline):
    """Returns when neither core has been used for a moment, or at the deadline."""
    while time.monotonic() < deadline:
        before = core_busy_seconds(0) + core_busy_seconds(1)
        time.sleep(0.1)
        if core_busy_seconds(0) + core_busy_seconds(1) - before < 2.5 * TICK:
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--busy", action="store_true", help="for a machine that others use; see above")
    parser.add_argument("--depths", default="1,16,64")
    parser.add_argument("--turns", type=int, default=9, help="clean turns wanted of each server")
    parser.add_argument("--seconds", type=float, default=60, help="give up waiting for clean turns, per depth")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--test", default="set")
    parser.add_argument("--port", type=int, default=7341)
    parser.add_argument("--requests", type=int, default=0, help="per turn; default: by depth")
    parser.add_argument("servers", nargs="+")
    args = parser.parse_args()
    names = [server.split("=", 1)[0] for server in args.servers]
    processes = []
    folder = tempfile.TemporaryDirectory()
    spinner = build_spinner(folder.name) if args.busy else None
    try:
        for number, server in enumerate(args.servers):
            processes.append(start(server.split("=", 1)[1], args.port + number, spinner))
            if args.busy:
                processes[-1].send_signal(signal.SIGSTOP)
        for depth in map(int, args.depths.split(",")):
            requests = args.requests or {1: 60_000, 16: 400_000, 64: 1_000_000}.get(depth, 200_000)
            results = [[] for _ in names]
            for number, process in enumerate(processes):
                turn(process.pid, args.port + number, args, depth, requests)
            deadline = time.monotonic() + args.seconds
            while time.monotonic() < deadline:
                if all(sum(result[3] for result in of_one) >= args.turns for of_one in results):
                    break
                for number, process in enumerate(processes):
                    if not args.busy:
                        wait_for_quiet(deadline)
                    results[number].append(turn(process.pid, args.port + number, args, depth, requests))
            for name, of_one in zip(names, results):
                clean = [result for result in of_one if result[3]]
                cost, rate, slept = map(statistics.median, list(zip(*clean))[:3]) if clean else (0, 0, 0)
                print(f"{name:14} P={depth:<3} {cost:6.3f} us ({len(clean)} clean turns; {rate:9.0f}/s, {slept:5.3f} sleeps per request)"
                      f"   least of all {len(of_one)}: {min(of_one)[0]:6.3f}", flush=True)
    finally:
        for process in processes:
            process.kill()
            process.wait()


main()
