"""A broker that refuses to start changes none of its data: after the mend, all of it is there."""

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.soak import wall_clock
from broker.__main__ import RELEASED_S
from broker.log.layout import CLEAN_SHUTDOWN
from tests.endtoend.test_start import command, own_certificate
from tests.endtoend.test_upgrade import TOPICS, produce, read, set_up
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.endtoend

OTHER_USER = 65_534
METADATA = "weir-metadata.sqlite"
FIRST_SEGMENT = f"{0:020}.log"
DATA_SUFFIXES = frozenset({".log", ".sqlite"})
"""Not the indexes: a start that ends in the middle of the logs may make those anew."""


def refused(words: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Return the one line in which the broker says why it does not start."""
    env = os.environ | (environment or {})
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=env)
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith(("weir: ", "Error: "))]
    assert ended.returncode == 1 and "Traceback" not in ended.stderr
    return line


def contents(folder: Path) -> dict[str, bytes]:
    """Return the records and the metadata, by file."""
    files = (path for path in folder.rglob("*") if path.suffix in DATA_SUFFIXES)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    assert METADATA in found and any(found[f"payments-{index}/{FIRST_SEGMENT}"] for index in range(3))
    return found


def set_format(data: Path, version: int) -> int:
    """Have the metadata be of another version of Weir, and return that before."""
    with closing(sqlite3.connect(data / METADATA)) as connection, connection:
        (before,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")
    return int(before)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, as those of the tests are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_nothing_is_lost_by_starts_that_are_refused(folder: Path) -> None:
    data = folder / "data"
    with BrokerProcess(data) as broker:
        set_up(broker)
        produced = produce(broker)
    kept = contents(data)

    assert "num.io.threads" in refused(command(data, "--override=num.io.threads=none"))
    assert contents(data) == kept

    missing = str(folder / "no-token")
    assert missing in refused(command(data), {"WEIR_ADMIN_TOKEN": "", "WEIR_ADMIN_TOKEN_FILE": missing})
    assert contents(data) == kept

    with socket.create_server(("127.0.0.1", 0)) as taken:
        line = refused(command(data, listener=f"127.0.0.1:{taken.getsockname()[1]}"))
    assert "Address already in use; stop the other program, or use another port" in line
    assert contents(data) == kept
    assert (data / CLEAN_SHUTDOWN).exists(), "the next start recovers logs that were closed"

    clock = folder / "clock"
    wall_clock.make(clock)
    wall_clock.set_difference(clock, RELEASED_S - 30 - time.time())
    with_clock = [sys.executable, "-m", "benchmarks.soak.wall_clock", str(clock), *command(data)[1:]]
    assert refused(with_clock).endswith("by this machine's clock: set it, and start again")
    assert contents(data) == kept

    store = folder / "store.pem"
    store.write_bytes(own_certificate(datetime.now(UTC) - timedelta(days=1)))
    store.chmod(0o600)
    secured = ["--override=listeners=SSL://127.0.0.1:0", f"--override=ssl.keystore.location={store}"]
    assert refused(command(data, *secured)).endswith("renew it, or set this machine's clock")
    assert contents(data) == kept

    data.chmod(0o555)
    is_root = os.geteuid() == 0
    other = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"] if is_root else []
    assert "write to this folder, or name another one in log.dirs" in refused([*other, *command(data)])
    data.chmod(0o750)
    assert contents(data) == kept

    own = set_format(data, 99)
    newer = contents(data)
    assert "start the version that wrote it, or restore a backup" in refused(command(data))
    assert contents(data) == newer
    set_format(data, own)

    with BrokerProcess(data) as broker:
        assert {topic: read(broker, topic, count) for topic, count in TOPICS.items()} == produced
