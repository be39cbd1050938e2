"""examples/clients: each program prints its throttle, and under no limit that there is none."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from benchmarks.install import KAFKA_LIBS
from tests.conventions.sources import ROOT
from tests.support import kafka_tools
from tests.support.client_programs import BUILT_WITHIN_S, ENDED_WITHIN_S, ENDTOEND, js_program, needs
from weir.testing import Broker

pytestmark = pytest.mark.endtoend

PROGRAMS: Final = ROOT / "examples" / "clients"
LONGEST: Final = 60


def python(_: Path) -> list[str]:
    return [sys.executable, str(PROGRAMS / "throttled.py")]


def java(_: Path) -> list[str]:
    return [*kafka_tools.JAVA, "-cp", f"{KAFKA_LIBS}/*", str(PROGRAMS / "Throttled.java")]


def go(directory: Path) -> list[str]:
    """With the versions of our own tests with franz-go."""
    shutil.copy(PROGRAMS / "throttled.go", directory)
    for name in ("go.mod", "go.sum"):
        shutil.copy(ENDTOEND / "franz" / name, directory)
    subprocess.run(["go", "build", "-o", "throttled", "."], cwd=directory, check=True, timeout=BUILT_WITHIN_S)
    return [str(directory / "throttled")]


def javascript(directory: Path) -> list[str]:
    """With the version of our own tests with KafkaJS."""
    js_program()
    (directory / "node_modules").symlink_to(ENDTOEND / "js_clients" / "node_modules")
    program = shutil.copy(PROGRAMS / "throttled.mjs", directory)
    return ["node", "--preserve-symlinks", "--preserve-symlinks-main", program]


LANGUAGES: Final = (
    python,
    pytest.param(java, marks=kafka_tools.pytestmark),
    pytest.param(go, marks=[pytest.mark.slow, needs("go", "Go")]),
    pytest.param(javascript, marks=[pytest.mark.slow, needs("npm", "Node")]),
)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.__name__)
def test_the_program_prints_its_throttle(
    broker: Broker, tmp_path: Path, language: Callable[[Path], list[str]]
) -> None:
    command = language(tmp_path)
    limited, free = f"limited-{language.__name__}", f"free-{language.__name__}"
    broker.set_quota(client_id=limited, producer_byte_rate=10_000)
    done = _run([*command, broker.bootstrap_servers, limited])
    found = re.fullmatch(r"throttled for (\d+) ms\n", done.stdout)
    assert found is not None and done.returncode == 0, done.stdout + done.stderr
    assert 0 < int(found[1]) < 60_000
    done = _run([*command, broker.bootstrap_servers, free])
    assert done.returncode == 1 and "not throttled" in done.stdout + done.stderr


def _run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=ENDED_WITHIN_S)


def test_each_program_is_short() -> None:
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in PROGRAMS.iterdir()}
    assert len(lines) == len(LANGUAGES) and max(lines.values()) <= LONGEST, lines
