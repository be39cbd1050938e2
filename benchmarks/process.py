"""One running broker in a process of its own: its start-up time, its memory, its end.

Used by benchmarks.run as a context manager. Sends one request, ApiVersions 0; independent of loads.
"""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.descendants import family
from benchmarks.peers import Peer

START_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 30.0
API_VERSIONS_0: Final = bytes.fromhex("0000000e 0012 0000 00000001 0004") + b"weir"
PROBE_EVERY_S: Final = 0.002
PORTS: Final = range(21_000, 29_000, 10)


class BrokerError(Exception):
    """The broker ended, or never responded; the message has its last lines of output."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: resident now, the part without a file behind it, and the maximum ever resident."""

    resident: int
    anonymous: int
    peak: int


@dataclass(slots=True)
class Broker:
    port: int
    process: subprocess.Popen[bytes]
    output: Path
    first_answer_s: float = 0.0
    tls: bool = False

    def memory(self) -> Memory:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = {key: int(kib) * 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", status)}
        return Memory(found["VmRSS"], found["RssAnon"], found["VmHWM"])

    def cpu_s(self) -> float:
        """Return the processor seconds, user and system, of all threads since the start, and of the processes
        that it has started and that still run.
        """
        return sum(time.clock_gettime(_processor_clock(each)) for each in family(self.process.pid))

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            raise BrokerError(f"exit status {self.process.returncode}: {self._last_words()}")

    def wait_first_answer(self, started: float) -> None:
        while time.perf_counter() - started < START_LIMIT_S:
            self.check_alive()
            with contextlib.suppress(OSError):
                if _answers(self.port, tls=self.tls):
                    self.first_answer_s = time.perf_counter() - started
                    return
            time.sleep(PROBE_EVERY_S)
        raise BrokerError(f"no response within {START_LIMIT_S} s: {self._last_words()}")

    def _last_words(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")[-1500:]


def _processor_clock(pid: int) -> int:
    """Return the number of a process's clock, as clock_getcpuclockid(3) does: /proc counts in 10 ms."""
    return (~pid << 3) | 2


def stolen_s() -> float:
    """Return the processor seconds of all cores that the machine's host has given to others since its
    start.
    """
    return int(Path("/proc/stat").read_text(encoding="ascii").split()[8]) / os.sysconf("SC_CLK_TCK")


def busy_s() -> float:
    """Return the busy processor seconds of all cores together, since the machine's start."""
    total = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, total[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Return the processor seconds of this program and of its ended children."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def _answers(port: int, *, tls: bool) -> bool:
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        if tls:
            connection = stack.enter_context(_unchecked().wrap_socket(connection))
        connection.sendall(API_VERSIONS_0)
        return len(connection.makefile("rb").read(8)) == 8


def _unchecked() -> ssl.SSLContext:
    """Return a context that trusts any certificate: the brokers are of this program and on loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def free_port() -> int:
    """Return a port that is free, as is the next; below the range of outgoing connections.

    One at random: another run may be about to start its broker, or to start it again after a kill.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise BrokerError(f"no free port in {PORTS}")


@contextlib.contextmanager
def running(peer: Peer, scratch: Path) -> Iterator[Broker]:
    """Run a new broker with an empty data directory under `scratch`; the block's end removes both."""
    directory = Path(tempfile.mkdtemp(prefix=f"{peer.name}-", dir=scratch))
    output = directory / "output"
    port = free_port()
    try:
        peer.prepare(directory, port)
        command = peer.command(directory, port)
        with output.open("wb") as sink:
            started = time.perf_counter()
            process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        broker = Broker(port, process, output, tls=peer.tls)
        try:
            broker.wait_first_answer(started)
            yield broker
        finally:
            _stop(process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
