"""What tests/support/forked_weir.py promises: a forked `weir` is as one that is started."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked_weir
from tests.support.broker_process import BrokerProcess
from tests.support.forked_weir import WEIR, ForkedPopen, Interpreter, run_weir

pytestmark = pytest.mark.endtoend


def test_a_forked_broker_is_a_child_of_the_tests_and_can_be_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        process = broker.running
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert f"PPid:\t{os.getpid()}\n" in status
        assert forked_weir.__file__.encode() in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        broker.kill()
        assert process.returncode == -signal.SIGKILL
        broker.start()
        assert broker.stop() == 0
        broker.start()


@pytest.mark.parametrize(
    "arguments", [["--version"], ["nonsense"], ["quotas", "list"], ["serve", "none.properties"]]
)
def test_it_writes_what_a_program_writes_and_ends_as_it_does(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "none.properties").write_text("num.io.threads=none\n")
    env = os.environ | {"WEIR_TOKEN": "a-token", "WEIR_CONSOLE": "nonsense"}
    program = subprocess.run([WEIR, *arguments], env=env, capture_output=True, text=True, check=False)
    forked = run_weir(*arguments, env=env)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        program.returncode,
        program.stdout,
        program.stderr,
    )


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ([sys.executable, "-c", ""], {}),
        ([WEIR, "--version"], {"env": os.environ | {"PYTHONHASHSEED": "1"}}),
        ([WEIR, "--version"], {"env": os.environ | {"WEIR_BUILD": ""}}),
        ([WEIR, "--version"], {"start_new_session": True}),
        ([WEIR, "--version"], {"preexec_fn": os.getpid}),
    ],
)
def test_what_cannot_be_forked_is_started(
    command: list[str], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Interpreter, "fork")
    with ForkedPopen(command, stdout=subprocess.DEVNULL, **options) as process:
        assert process.wait(60) == 0
