"""A test whose clock only a fixture asks for is refused: it would wait for real seconds."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
SUITE: Final = """
import pytest
import trio

@pytest.fixture
def world({clock}): return "world"

async def test_a_minute(world{more}):
    trio.lowlevel.current_clock().jump(60)
    await trio.sleep_until(60)
    assert trio.current_time() == 60
"""


@pytest.mark.parametrize("clock", ["autojump_clock", "mock_clock"])
@pytest.mark.parametrize("is_asked", [True, False], ids=["asked for", "hidden"])
def test_a_clock_is_asked_for_by_the_test_itself(tmp_path: Path, clock: str, is_asked: bool) -> None:
    refusal = f"test_a_minute: a fixture asks for {clock}, and the test does not"
    status, said = (0, "1 passed") if is_asked else (4, refusal)
    suite = SUITE.replace("{clock}", clock).replace("{more}", f", {clock}" if is_asked else "")
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\ntrio_mode = true\n")
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "tests" / "test_some.py").write_text(suite)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
        text=True,
        capture_output=True,
    )
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (status, True), ran.stdout + ran.stderr
