"""What `pytest --processes` promises: each test runs once, in its file's process, and a process that dies
costs the test that it ran.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

CONFTEST: Final = """
import os
import pytest
from tests.support.processes import pytest_addoption, pytest_runtestloop

@pytest.fixture(scope="session")
def whole():
    with open("sessions", "a") as file:
        print("set up", file=file)
    yield
    with open("sessions", "a") as file:
        print("torn down", file=file)

@pytest.fixture(scope="module", autouse=True)
def process(request, whole, tmp_path_factory):
    with open("files", "a") as file:
        number, folder = os.environ.get("TEST_PROCESS"), tmp_path_factory.getbasetemp()
        print(request.path.name, number, os.getpid(), folder, file=file)
"""

SET_OUTSIDE: Final = ("TEST_PROCESS", "CI", "BUILD_NUMBER")
"""Variables that change what pytest prints; a summary of a CI run repeats every error in full."""

FILE: Final = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_some(number):
    print("says", number)
    assert True
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text(FILE)
    return tmp_path


def run(suite: Path, *arguments: str) -> tuple[int, str]:
    """The exit status, and what pytest writes to the terminal."""
    command = [sys.executable, "-m", "pytest", "-v", *arguments]
    kept = {key: value for key, value in os.environ.items() if key not in SET_OUTSIDE}
    env = kept | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=suite, env=env, text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()]


def test_each_file_has_one_process_and_each_process_its_folder_and_number(suite: Path) -> None:
    status, output = run(suite, "--processes", "3")
    assert (status, output.count(" PASSED")) == (0, 30), output
    files = lines(suite / "files")
    assert sorted(file for file, *_ in files) == [f"test_{name}.py" for name in "abcdef"]
    processes = {(number, pid, folder) for _, number, pid, folder in files}
    assert (
        len(processes)
        == len({number for number, *_ in processes})
        == len({folder for *_, folder in processes})
    )
    assert {number for number, *_ in processes} <= {"0", "1", "2"}
    sessions = [" ".join(line) for line in lines(suite / "sessions")]
    assert sessions.count("set up") == sessions.count("torn down") == len(processes)


SECONDS: Final = {
    "test_a.py": 1,
    "test_b.py": 9,
    "test_c.py": 5,
    "tests/endtoend/test_d.py": 3,
    "tests/endtoend/test_e.py": 7,
    "tests/webui/browser/test_f.py": 2,
}


def test_the_longest_file_of_each_kind_is_first(suite: Path) -> None:
    for path in SECONDS:
        (suite / path).parent.mkdir(parents=True, exist_ok=True)
        if "/" in path:
            (suite / Path(path).name).rename(suite / path)
    status, output = run(suite, "--processes", "2")
    cache = suite / ".pytest_cache" / "v" / "processes" / "seconds"
    assert (status, sorted(json.loads(cache.read_text()))) == (0, sorted(SECONDS)), output
    (suite / "files").unlink()
    cache.write_text(json.dumps(SECONDS))
    status, output = run(suite, "--processes", "2", "test_a.py", "test_b.py", "test_c.py", "tests")
    assert status == 0, output
    taken = {number: [name for name, each, *_ in lines(suite / "files") if each == number] for number in "01"}
    waiting, computing = ["test_f.py", "test_e.py", "test_d.py"], ["test_b.py", "test_c.py", "test_a.py"]
    assert taken["0"][:1] == waiting[:1]
    assert taken["1"][:1] == computing[:1]
    for files in taken.values():
        assert [file for file in files if file in waiting] == [file for file in waiting if file in files]
        assert [file for file in files if file in computing] == [file for file in computing if file in files]


def test_a_file_that_no_run_has_timed_is_first(suite: Path) -> None:
    cache = suite / ".pytest_cache" / "v" / "processes" / "seconds"
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({f"test_{name}.py": 9 for name in "abcdf"}))
    run(suite, "--processes", "2")
    assert "test_e.py" in [file for file, *_ in lines(suite / "files")][:2]


def test_a_run_without_a_cache_passes(suite: Path) -> None:
    status, output = run(suite, "--processes", "2", "-p", "no:cacheprovider")
    assert (status, output.count(" PASSED")) == (0, 30), output


def test_one_process_is_not_forked(suite: Path) -> None:
    status, output = run(suite, "--processes", "1")
    assert (status, output.count(" PASSED")) == (0, 30), output
    assert len({pid for _, _, pid, _ in lines(suite / "files")}) == 1
    assert {number for _, number, *_ in lines(suite / "files")} == {"None"}


def test_no_more_processes_than_files_are_forked(suite: Path) -> None:
    status, output = run(suite, "--processes", "9", "test_a.py", "test_b.py")
    assert (status, output.count(" PASSED")) == (0, 10), output
    assert {number for _, number, *_ in lines(suite / "files")} <= {"0", "1"}


def test_a_process_that_dies_costs_one_test(suite: Path) -> None:
    ends = {
        "a": "__import__('os')._exit(7) if number == 1 else None",
        "f": "import os; os.kill(os.getpid(), 9)",
    }
    for name, end in ends.items():
        (suite / f"test_{name}.py").write_text(FILE.replace("assert True", end))
    status, output = run(suite, "--processes", "2")
    assert (status, output.count(" PASSED")) == (1, 24), output
    assert "the process of this test ended with 7" in output
    assert "the process of this test ended with -9" in output
    assert "FAILED test_a.py::test_some[1]" in output
    assert output.count("FAILED test_f.py") == 5


def test_the_first_failure_ends_a_run_that_asks_for_it(suite: Path) -> None:
    for name in "abcdef":
        (suite / f"test_{name}.py").write_text(FILE.replace("assert True", "assert False"))
    status, output = run(suite, "--processes", "2", "--exitfirst")
    assert (status, output.count("FAILED test_")) == (1, 1), output
    assert "stopping after 1 failures" in output


def test_failures_and_errors_are_shown_and_reported(suite: Path) -> None:
    (suite / "test_b.py").write_text(FILE.replace("number):", "number, nothing):"))
    (suite / "test_c.py").write_text(FILE.replace("assert True", "assert number != 3"))
    status, output = run(suite, "--processes", "2", "--junitxml", "report.xml")
    assert (status, output.count(" PASSED"), output.count("fixture 'nothing' not found")) == (1, 24, 5), (
        output
    )
    assert "assert 3 != 3" in output
    assert "says 3" in output
    assert "FAILED test_c.py::test_some[3]" in output
    assert "1 failed, 24 passed" in output
    report = (suite / "report.xml").read_text()
    assert [report.count(each) for each in ("<testcase ", "<failure ", "<error ")] == [30, 1, 5]
