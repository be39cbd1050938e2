"""Starts that must not succeed: one line that says why, and a broker that is running does not notice;
and what the signals of a terminal do.
"""

import itertools
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.broker_process import WEIR, BrokerProcess
from tests.support.hostile import is_served
from tests.support.live import alter_through
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend


def command(directory: Path, *more: str, listener: str = "127.0.0.1:0") -> list[str]:
    settings = [f"log.dirs={directory}", f"listeners=PLAINTEXT://{listener}", "console.listener="]
    return [str(WEIR), "serve", *(f"--override={setting}" for setting in settings), *more]


def refusal(directory: Path, listener: str = "127.0.0.1:0") -> list[str]:
    """The lines in which a broker says why it does not start."""
    ended = subprocess.run(command(directory, listener=listener), capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1
    return [line for line in ended.stderr.splitlines() if line.startswith("weir: ")]


async def test_a_directory_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        (line,) = refusal(tmp_path, "127.0.0.1:0")
        assert line.startswith("weir: ") and "another broker uses this directory" in line
        assert await is_served(client)
        await client.stream.aclose()


async def test_an_address_that_another_broker_uses_is_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "one") as broker:
        client = await connect(int(broker.plain.rpartition(":")[2]))
        (line,) = refusal(tmp_path / "two", broker.plain)
        assert line.startswith("weir: listeners=") and "Address already in use" in line
        assert await is_served(client)
        await client.stream.aclose()


def test_a_console_port_that_is_taken_is_reported_with_its_key_and_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        overrides = command(tmp_path)[:-1]
        ended = subprocess.run(
            [*overrides, f"--override=console.listener={address}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("weir: ")]
    assert line == (
        f"weir: console.listener='{address}' is not allowed: "
        "an address that can be bound (Address already in use)"
    )


def test_a_setting_to_forget_that_does_not_exist_is_reported_and_the_broker_serves(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, options=("--forget", "listener")) as broker:
        pass
    assert any("--forget listener: unknown key" in line for line in broker.log_lines)


def started(command: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A broker that serves, and its port."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    output = process.stdout.readline()
    assert output.startswith("Kafka:")
    return process, int(output.split(",")[0].rpartition(":")[2])


def stopped(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> int:
    """Its exit status."""
    with process:
        process.send_signal(number)
        return process.wait(20)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_terminal_that_closes_stops_the_broker_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    assert stopped(started(command(tmp_path))[0], number) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_under_nohup_a_closed_terminal_has_no_effect(tmp_path: Path) -> None:
    process, _ = started(["nohup", *command(tmp_path)])
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    assert stopped(process) == 0


async def test_a_setting_that_keeps_the_broker_from_starting_is_blamed_and_can_be_taken_back(
    tmp_path: Path,
) -> None:
    process, first = started(command(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    wanted = f"SASL_PLAINTEXT://127.0.0.1:{port}"
    client = await connect(first)
    assert await alter_through(client, {"listeners": f"PLAINTEXT://127.0.0.1:0,{wanted}"}) == (0, None)
    await client.stream.aclose()
    assert stopped(process) == 0
    with socket.create_server(("127.0.0.1", port)):
        (line,) = refusal(tmp_path)
        assert wanted in line and line.endswith("--forget listeners deletes it")
        process, second = started(command(tmp_path, "--forget", "listeners"))
        assert second != port
        assert stopped(process) == 0


STORMS = {
    "SIGTERM twice": [signal.SIGTERM] * 2,
    "SIGINT and SIGTERM": [signal.SIGINT, signal.SIGTERM],
    "three": [signal.SIGTERM, signal.SIGINT, signal.SIGTERM],
}


GAPS_S = [0, 0.02, 0.05]


@pytest.mark.parametrize(
    ("numbers", "gap_s"),
    [
        pytest.param(
            STORMS[name],
            gap_s,
            id=f"{name}-{gap_s}",
            marks=() if GAPS_S.index(gap_s) == list(STORMS).index(name) else pytest.mark.slow,
        )
        for name in STORMS
        for gap_s in GAPS_S
    ],
)
def test_more_signals_right_after_the_first_change_nothing(
    tmp_path: Path, numbers: list[signal.Signals], gap_s: float
) -> None:
    with BrokerProcess(tmp_path) as broker:
        for number in numbers[:-1]:
            broker.running.send_signal(number)
            time.sleep(gap_s)
        assert broker._end(numbers[-1]) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    log = "".join(broker.log_lines)
    assert "Traceback" not in log and log.count("stopping") == 1, log


def test_signals_on_and_on_until_the_process_is_gone_leave_a_clean_end(tmp_path: Path) -> None:
    """No moment between the first signal and the last one takes the default action, the interpreter's own end
    included.
    """
    with BrokerProcess(tmp_path) as broker:
        process = broker.running
        numbers = itertools.cycle([signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.0005)
            if process.poll() is not None:
                break
        assert broker._end(signal.SIGTERM) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert "Traceback" not in "".join(broker.log_lines)
