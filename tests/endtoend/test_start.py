"""Starts that must not succeed: one line that says why, and a broker that is running does not notice;
and what the signals of a terminal do.
"""

import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.soak import wall_clock
from broker.__main__ import RELEASED_S
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
    return refusal_of(command(directory, listener=listener))


def refusal_of(words: Sequence[str]) -> list[str]:
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
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
        f"weir: console.listener={address} cannot be bound: "
        "Address already in use; stop the other program, or use another port"
    )


def test_a_folder_that_cannot_be_written_is_reported_with_what_to_do() -> None:
    is_root = os.geteuid() == 0
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if is_root else []
    # Not below the folder of the tests, which others cannot enter.
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        folder = Path(parent) / "data"
        folder.mkdir(mode=0o555)
        (line,) = refusal_of([*other, *command(folder)])
    user = 65534 if is_root else os.geteuid()
    assert line.startswith(f"weir: [Errno 13] Permission denied: '{folder}/")
    assert line.endswith(f"': let user {user} write to this folder, or name another one in log.dirs")


@pytest.mark.parametrize("below", ["", "data"])
def test_a_file_in_the_place_of_the_folder_is_reported_and_stays(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("kept", encoding="ascii")
    (line,) = refusal_of(command(file / below))
    assert f"'{file / below}'" in line
    assert line.endswith(": a file is in the place of a folder: move it, or name another folder in log.dirs")
    assert file.read_text(encoding="ascii") == "kept"


@pytest.mark.parametrize(("seconds", "starts"), [(-30, False), (0, True)])
def test_a_clock_that_was_never_set_is_reported(tmp_path: Path, seconds: int, starts: bool) -> None:
    """The clock goes on while the process starts."""
    clock = tmp_path / "clock"
    wall_clock.make(clock)
    wall_clock.set_difference(clock, RELEASED_S + seconds - time.time())
    with_clock = [
        sys.executable,
        "-m",
        "benchmarks.soak.wall_clock",
        str(clock),
        *command(tmp_path / "d")[1:],
    ]
    if starts:
        assert stopped(started(with_clock)[0]) == 0
    else:
        (line,) = refusal_of(with_clock)
        assert line == (
            "weir: it is 2024-12-31 at 23:59 UTC by this machine's clock: set it, and start again"
        )


@pytest.mark.parametrize("days", [-1, 1])
@pytest.mark.parametrize("where", ["ssl", "console.ssl"])
def test_a_certificate_that_has_ended_is_reported_with_what_to_do(
    tmp_path: Path, where: str, days: int
) -> None:
    store = tmp_path / "store.pem"
    end = datetime.now(UTC) + timedelta(days=days)
    store.write_bytes(own_certificate(end))
    store.chmod(0o600)
    listener = "SSL" if where == "ssl" else "PLAINTEXT"
    settings = [f"listeners={listener}://127.0.0.1:0", "console.listener=127.0.0.1:0"]
    settings.append(f"{where}.keystore.location={store}")
    with_store = [*command(tmp_path / "d"), *(f"--override={setting}" for setting in settings)]
    if days > 0:
        assert stopped(started(with_store)[0]) == 0
    else:
        (line,) = refusal_of(with_store)
        assert line == (
            f"weir: {where}.keystore.location='{store}' is not allowed: a certificate whose time is not "
            f"over; it ended on {end:%Y-%m-%d at %H:%M} UTC: renew it, or set this machine's clock"
        )


def own_certificate(end: datetime) -> bytes:
    """A key and its certificate, valid for ten days until this time."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = made.not_valid_before(end - timedelta(days=10)).not_valid_after(end).sign(key, hashes.SHA256())
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption()) + signed.public_bytes(pem)


def test_a_setting_to_forget_that_does_not_exist_is_reported_and_the_broker_serves(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, options=("--forget", "listener")) as broker:
        pass
    assert any("--forget listener: unknown key" in line for line in broker.log_lines)


def started(command: list[str]) -> tuple[subprocess.Popen[str], int]:
    """A broker that serves, and its port. The tests themselves may run under nohup."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
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
