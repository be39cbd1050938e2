"""Several gateway processes on the same ports, under one parent."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer
from trio.testing import MockClock

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.server.gateway_processes import Processes, check, overrides_of
from tests.support.acknowledged_load import read_all
from tests.support.broker_process import TOKEN, WEIR, BrokerProcess, ask_console
from tests.support.gateway_process import GatewayProcess
from tests.support.machine_speed import crowding
from tests.support.real_clients import Target, create
from tests.support.running_gateway import free_ports
from tests.support.small_requests import P99_MS, SmallRequests

WITHIN_S = 30
LONG_S = 1_000


def config(*overrides: str) -> object:
    return load(None, overrides, {}).config


@pytest.mark.parametrize("port", [1, 9092])
def test_fixed_ports_are_allowed(port: int) -> None:
    check(load(None, [f"listeners=PLAINTEXT://127.0.0.1:{port}"], {}).config)


def test_a_port_of_the_systems_choice_is_not() -> None:
    with pytest.raises(ConfigError, match=r"a fixed port with gateway\.processes above 1"):
        check(load(None, ["listeners=PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:0"], {}).config)


@pytest.mark.parametrize(("scope", "lines"), [("gateway", 1), ("cluster", 0)])
def test_limits_that_processes_do_not_share_are_logged(
    scope: str, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    check(load(None, ["listeners=PLAINTEXT://127.0.0.1:9092", f"quota.scope={scope}"], {}).config)
    assert len(caplog.records) == lines
    assert all("rules and limits of its own" in record.getMessage() for record in caplog.records)


def test_each_process_has_its_number_and_folder_and_the_first_the_console() -> None:
    found = load(None, ["log.dirs=/data,/more", "node.id=10"], {}).config
    common = ["gateway.processes=1", "socket.listen.reuse.port=true"]
    assert overrides_of(0, found) == [*common, "node.id=10", "log.dirs=/data/process-0"]
    assert overrides_of(3, found) == [*common, "node.id=13", "log.dirs=/data/process-3", "console.listener="]


@pytest.mark.parametrize("text", ["0", "257", "two"])
def test_the_number_of_processes_is_bounded(text: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.processes"):
        load(None, [f"gateway.processes={text}"], {})
    for allowed in ("1", "256"):
        assert load(None, [f"gateway.processes={allowed}"], {}).config.gateway.processes == int(allowed)


def children(parent: int) -> set[int]:
    found = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False)
    return {int(each) for each in found.stdout.split()}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def delivered(bootstrap: str, clients: int) -> int:
    """How many of `clients` producers get a record acknowledged."""
    answers: list[object] = []
    for number in range(clients):
        producer = Producer({"bootstrap.servers": bootstrap, "client.id": f"c{number}"})
        producer.produce("events", b"x", on_delivery=lambda error, _: answers.append(error))
        assert producer.flush(WITHIN_S) == 0
    return sum(error is None for error in answers)


@pytest.mark.endtoend
def test_a_process_that_dies_is_started_again_and_the_others_go_on(tmp_path: Path) -> None:
    first = free_ports(10)
    bootstrap = f"127.0.0.1:{first}"
    with BrokerProcess(tmp_path / "broker") as upstream:
        settings = [
            f"listeners=PLAINTEXT://{bootstrap}",
            f"upstream.bootstrap.servers={upstream.plain}",
            f"gateway.port.range={first + 1}-{first + 9}",
            f"log.dirs={tmp_path / 'gateway'}",
            "console.listener=",
            "gateway.processes=2",
        ]
        parent = subprocess.Popen(
            [WEIR, "gateway", *(f"--override={setting}" for setting in settings)],
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr,
        )
        try:
            until(lambda: len(children(parent.pid)) == 2)
            for index in range(2):
                until(
                    lambda index=index: (tmp_path / f"gateway/process-{index}/upstream.properties").exists()
                )  # type: ignore[misc]
            assert delivered(bootstrap, 6) == 6
            before = children(parent.pid)
            os.kill(min(before), signal.SIGKILL)
            until(lambda: len(children(parent.pid) - {min(before)}) == 2)
            assert max(before) in children(parent.pid)
            assert delivered(bootstrap, 6) == 6
            parent.send_signal(signal.SIGTERM)
            assert parent.wait(WITHIN_S) == 0
            assert children(parent.pid) == set()
        finally:
            parent.kill()
            parent.wait()


@pytest.mark.parametrize("drains", [True, False])
async def test_a_process_that_ends_in_a_drain_stays_away(
    drains: bool,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A new one would accept clients, which the console calls drained."""
    processes = Processes(load(None, ["gateway.processes=2"], {}), [])
    runs: Counter[int] = Counter()

    async def run_once(index: int) -> int:
        runs[index] += 1
        if index == 1 and runs[1] == 1:
            if drains:
                os.kill(os.getpid(), signal.SIGUSR1)
                await trio.sleep(1)
            return 3
        await trio.sleep(LONG_S)
        os.kill(os.getpid(), signal.SIGTERM)
        await processes._stopping.wait()
        return 0

    monkeypatch.setattr(processes, "_run_once", run_once)
    assert await processes.run() == 0
    assert runs == {0: 1, 1: 1 if drains else 2}
    again = "stays away, as the gateway drains" if drains else "starts again"
    assert [each.getMessage() for each in caplog.records] == [f"a gateway process has ended and {again}"]


CLIENTS = 40
TOPIC = "killed"


def sockets_at(pid: int, port: int) -> int:
    """How many connections of a process have this port at its side."""
    table = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    ours = {f"socket:[{row[9]}]" for row in table if row[1].endswith(f":{port:04X}") and row[3] == "01"}
    found = 0
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            found += os.readlink(each) in ours
    return found


def kill_one_of_two(directory: Path) -> float:
    """Kill a process under load: only its own clients may notice. The 99th percentile of all waits, in ms."""
    with BrokerProcess(directory / "upstream") as upstream:
        create(Target(upstream.plain), TOPIC, 1, 1)
        gateway = GatewayProcess(directory, upstream.plain, "gateway.processes=2", nodes=1)
        with gateway, SmallRequests(gateway.bootstrap, TOPIC, clients=CLIENTS) as clients:
            parent, port = gateway.running.pid, int(gateway.bootstrap.rpartition(":")[2])
            until(lambda: sum(sockets_at(pid, port) for pid in children(parent)) == CLIENTS)
            victim, *others = sorted(children(parent), key=lambda pid: sockets_at(pid, port))
            its_own = sockets_at(victim, port)
            assert 0 < its_own < CLIENTS
            os.kill(victim, signal.SIGKILL)
            clients.wait_for_more(500)
            until(lambda: len(children(parent) - {victim}) == 2)
            # The new process takes connections, and the others go on.
            until(lambda: _is_taken(gateway, children(parent) - {*others, victim}, port))
            clients.wait_for_more(500)
        clients.check(read_all(upstream.plain, TOPIC, 1), disturbed=its_own)
    assert sum("a gateway process has ended and starts again" in line for line in gateway.log_lines) == 1
    print(f"p99 {clients.p99_ms:.1f} ms, longest {max(clients.waits_ms):.1f} ms of {len(clients.waits_ms)}")
    return clients.p99_ms


def _is_taken(gateway: GatewayProcess, new: set[int], port: int) -> bool:
    """Whether the new process has one of a few connections."""
    host, _, _ = gateway.bootstrap.rpartition(":")
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(socket.create_connection((host, port), timeout=WITHIN_S))
        time.sleep(0.05)
        return any(sockets_at(pid, port) for pid in new)


@pytest.mark.endtoend
def test_a_killed_process_costs_the_clients_of_the_other_nothing(tmp_path: Path) -> None:
    assert kill_one_of_two(tmp_path) > 0


@pytest.mark.endtoend
@pytest.mark.timed
def test_a_killed_process_keeps_no_other_client_waiting(tmp_path: Path) -> None:
    assert kill_one_of_two(tmp_path) < P99_MS * crowding()


def accepts(bootstrap: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False


def is_served(console: str) -> bool:
    with suppress(OSError):
        return bool(ask_console(console, "GET", "/api/v1/gateway/drain")["state"] == "serving")
    return False


@pytest.mark.endtoend
def test_the_console_of_the_first_process_drains_all(tmp_path: Path) -> None:
    first = free_ports(11)
    bootstrap, console = f"127.0.0.1:{first}", f"127.0.0.1:{first + 10}"
    with BrokerProcess(tmp_path / "broker") as upstream:
        settings = [
            f"listeners=PLAINTEXT://{bootstrap}",
            f"upstream.bootstrap.servers={upstream.plain}",
            f"gateway.port.range={first + 1}-{first + 9}",
            f"log.dirs={tmp_path / 'gateway'}",
            f"console.listener={console}",
            "gateway.processes=2",
        ]
        parent = subprocess.Popen(
            [WEIR, "gateway", *(f"--override={setting}" for setting in settings)],
            stdout=subprocess.DEVNULL,
            stderr=sys.stderr,
            env=os.environ | {"WEIR_ADMIN_TOKEN": TOKEN},
        )
        try:
            until(lambda: is_served(console))
            for index in range(2):
                until(
                    lambda index=index: (tmp_path / f"gateway/process-{index}/upstream.properties").exists()
                )  # type: ignore[misc]
            before = children(parent.pid)
            assert delivered(bootstrap, 6) == 6
            ask_console(console, "POST", "/api/v1/gateway/drain")
            until(lambda: not accepts(bootstrap))
            assert ask_console(console, "GET", "/api/v1/gateway/drain")["state"] == "drained"
            assert children(parent.pid) == before
            parent.send_signal(signal.SIGTERM)
            assert parent.wait(WITHIN_S) == 0
        finally:
            parent.kill()
            parent.wait()
