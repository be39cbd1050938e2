"""A quarter of the computed cases runs at each commit: every case once in four."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.rotation import ALL, OF_COMMIT, QUARTERS, is_named, left_out, quarter_of

ROOT: Final = Path(__file__).parents[1]
CASES: Final = frozenset(f"tests/a.py::test_a[{seed}]" for seed in range(50))


def kept(cases: frozenset[str], quarter: int) -> set[str]:
    return set(cases - left_out(cases, quarter))


def test_four_commits_run_every_case_once() -> None:
    quarters = [kept(CASES, quarter) for quarter in range(QUARTERS)]
    assert set.union(*quarters) == CASES
    assert sorted(map(len, quarters)) == [12, 12, 13, 13]


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_of_each_function_a_case_runs_at_each_commit(count: int) -> None:
    cases = frozenset(f"tests/a.py::{name}[{seed}]" for name in ("test_a", "test_b") for seed in range(count))
    for quarter in range(QUARTERS):
        functions = {case.partition("[")[0] for case in kept(cases, quarter)}
        assert functions == {"tests/a.py::test_a", "tests/a.py::test_b"}
    assert set.union(*(kept(cases, quarter) for quarter in range(QUARTERS))) == cases


def test_the_choice_does_not_depend_on_the_order_of_collection() -> None:
    assert left_out(sorted(CASES), 1) == left_out(sorted(CASES, reverse=True), 1)


def test_neighbours_are_spread() -> None:
    ranges = [{f"tests/a.py::test_a[{seed}]" for seed in range(at, 50, QUARTERS)} for at in range(QUARTERS)]
    assert all(kept(CASES, quarter) not in ranges for quarter in range(QUARTERS))


@pytest.mark.parametrize("setting", ["", ALL])
def test_without_a_setting_all_run(setting: str, tmp_path: Path) -> None:
    assert quarter_of(setting, tmp_path) is None


def test_a_quarter_is_asked_for_by_its_number(tmp_path: Path) -> None:
    assert [quarter_of(str(quarter), tmp_path) for quarter in range(QUARTERS)] == [0, 1, 2, 3]


@pytest.mark.parametrize("setting", ["-1", "4", "none"])
def test_another_setting_is_refused(setting: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"ROTATION={setting}: not all, commit or 0 to 3"):
        quarter_of(setting, tmp_path)


def git(checkout: Path, *arguments: str) -> None:
    identity = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(
        ["git", *arguments],
        cwd=checkout,
        env=os.environ | identity | {"GIT_COMMITTER_DATE": "@1000000003 +0000"},
        check=True,
        capture_output=True,
    )


def test_each_commit_takes_the_next_quarter(tmp_path: Path) -> None:
    git(tmp_path, "init")
    seen = []
    for _ in range(5):
        git(tmp_path, "commit", "--allow-empty", "--message", "x")
        seen.append(quarter_of(OF_COMMIT, tmp_path))
    assert seen == [1, 2, 3, 0, 1]


def test_a_shallow_clone_takes_the_quarter_from_its_time(tmp_path: Path) -> None:
    """It counts one commit always, and would run the same quarter for ever."""
    (tmp_path / "whole").mkdir()
    git(tmp_path / "whole", "init")
    for _ in range(2):
        git(tmp_path / "whole", "commit", "--allow-empty", "--message", "x")
    git(tmp_path, "clone", "--depth", "1", f"file://{tmp_path}/whole", "shallow")
    assert quarter_of(OF_COMMIT, tmp_path / "shallow") == 1_000_000_003 % QUARTERS


def test_without_git_the_first_quarter_runs(tmp_path: Path) -> None:
    assert quarter_of(OF_COMMIT, tmp_path) == 0


NAMED: Final = [
    ("tests/a.py::test_a[1]", True),
    ("tests/a.py::test_a", True),
    (f"{ROOT}/tests/a.py::test_a", True),
    ("tests/a.py::test_a[2]", False),
    ("tests/a.py::test", False),
    ("tests/b.py::test_a[1]", False),
    ("tests/a.py", False),
    ("tests", False),
]


@pytest.mark.parametrize(("argument", "named"), NAMED)
def test_a_test_is_named_by_its_node_id(argument: str, named: bool) -> None:
    assert is_named("tests/a.py::test_a[1]", ROOT / "tests/a.py", [argument], ROOT) is named


def test_a_method_is_named_by_its_class() -> None:
    assert is_named("tests/a.py::TestA::test_a[1]", ROOT / "tests/a.py", ["tests/a.py::TestA"], ROOT)


SUITE: Final = """
import pytest

@pytest.mark.rotates
@pytest.mark.parametrize("seed", range(8))
def test_computed(seed): pass

computed = [pytest.param(seed, marks=pytest.mark.rotates) for seed in range(8)]

@pytest.mark.parametrize("seed", [*computed, "named"])
def test_mixed(seed): pass

def test_other(): pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\nmarkers = rotates: see there\n")
    (tmp_path / "tests" / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "tests" / "test_some.py").write_text(SUITE)
    return tmp_path


def run(suite: Path, rotation: str, *arguments: str) -> str:
    """What pytest writes to the terminal."""
    environment = os.environ | {
        "ROTATION": rotation,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-v", *arguments]
    return subprocess.run(
        command, cwd=suite, env=environment, check=True, text=True, capture_output=True
    ).stdout


@pytest.mark.parametrize(
    ("rotation", "arguments", "passed", "waiting"),
    [
        ("2", [], 6, 12),
        ("2", ["--processes", "2"], 6, 12),
        ("all", [], 18, 0),
        ("2", ["tests/test_some.py::test_computed"], 8, 0),
        ("2", ["tests/test_some.py::test_computed", "tests/test_some.py"], 12, 6),
    ],
)
def test_a_run_leaves_out_what_rotates_and_says_so(
    suite: Path, rotation: str, arguments: list[str], passed: int, waiting: int
) -> None:
    output = run(suite, rotation, *arguments)
    assert f" {passed} passed" in output
    if waiting:
        assert f"ROTATION={rotation}: {waiting} computed cases wait for another commit" in output
    else:
        assert "wait for another commit" not in output
    assert "test_mixed[named]" in output or arguments[:1] == ["tests/test_some.py::test_computed"]
