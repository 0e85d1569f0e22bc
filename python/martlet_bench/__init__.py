"""Load tester for servers that speak the Redis protocol.

The class has resp-benchmark's interface: ``from martlet_bench import Benchmark`` is the only line to change.
"""

import os
import sys
from dataclasses import dataclass

from . import _martlet_bench

__all__ = ["Benchmark", "Result"]


@dataclass
class Result:
    """Requests per second, mean and 99th percentile of latency in milliseconds, number of connections."""

    qps: float
    avg_latency_ms: float
    p99_latency_ms: float
    connections: int


def _core_list(text: str) -> list[int]:
    """``0,2-4`` as [0, 2, 3, 4]; an empty text is all cores of this machine."""
    if not text:
        return list(range(os.cpu_count() or 1))
    cores = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        try:
            cores.update(range(int(low), int(high or low) + 1))
        except ValueError:
            raise ValueError(f"Invalid cores range: {text}.") from None
    return sorted(cores)


class Benchmark:
    """Benchmarks of one server. Errors of the server or in a command raise RuntimeError or ValueError."""

    def __init__(self, host: str = "127.0.0.1", port: int = 6379, username: str = "", password: str = "",
                 cluster: bool = False, timeout: int = 30, cores: str = ""):
        self.host = host
        self.port = port
        self.username = username
        self.password = password
        self.cluster = cluster
        self.timeout = timeout
        self.cores = _core_list(cores)

    def _run(self, command, connections, pipeline, count, seconds, load, quiet):
        return Result(*_martlet_bench.benchmark(
            self.host, self.port, self.username, self.password, self.cluster,
            ",".join(map(str, self.cores)),
            command, connections, pipeline, count, seconds, load, quiet))

    def bench(self, command: str, connections: int = 0, pipeline: int = 1, count: int = 0, seconds: int = 0,
              quiet: bool = False) -> Result:
        """Measures a command; with connections=0 the best number is searched for first."""
        return self._run(command, connections, pipeline, count, seconds, False, quiet)

    def load_data(self, command: str, count: int, connections: int = 128, pipeline: int = 10,
                  quiet: bool = False) -> None:
        """Sends a command count times, to fill the server."""
        self._run(command, connections, pipeline, count, 0, True, quiet)

    def flushall(self) -> None:
        """Empties all databases."""
        _martlet_bench.send(self.host, self.port, self.username, self.password, ["FLUSHALL"])


def main() -> None:
    """The resp-benchmark command line."""
    sys.exit(_martlet_bench.command_line(sys.argv[1:]))
