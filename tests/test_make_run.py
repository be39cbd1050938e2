"""`make run` says each step while it installs, nothing else, and nothing at all when it is installed."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.conventions.sources import ROOT

PYTHON: Final = """\
#!/bin/sh
# Makes an environment whose programs do nothing, but for `weir`; of deploy.shown it writes the text.
if [ "$1 $2" = "-m deploy.shown" ]; then
    echo "$3"
    shift 3
    exec "$@"
fi
[ "$1 $2" = "-m venv" ] || exit 0
mkdir -p "$3/bin"
for program in pip python; do
    printf '#!/bin/sh\\n' > "$3/bin/$program"
done
printf '#!/bin/sh\\necho "weir $*"\\n' > "$3/bin/weir"
chmod +x "$3"/bin/*
"""


@pytest.fixture
def variables(tmp_path: Path) -> list[str]:
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return [f"PYTHON={python}", f"VENV={tmp_path / 'venv'}", "ARGS=my.properties"]


def run(variables: list[str]) -> list[str]:
    command = ["make", "--no-print-directory", "run", *variables]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_each_step_has_a_line(variables: list[str], tmp_path: Path) -> None:
    assert run(variables) == [
        f"Making a Python environment in {tmp_path / 'venv'}",
        "Installing the packages that requirements/runtime.txt locks",
        f"Installing Weir into {tmp_path / 'venv'}",
        "weir serve my.properties",
    ]


def test_an_environment_whose_making_was_interrupted_is_made_again(
    variables: list[str], tmp_path: Path
) -> None:
    run(variables)
    for left in ("pip", "weir"):
        (tmp_path / "venv" / "bin" / left).unlink()
    (tmp_path / "venv" / "runtime").unlink()
    assert run(variables)[0] == f"Making a Python environment in {tmp_path / 'venv'}"


def test_a_later_start_installs_nothing(variables: list[str]) -> None:
    run(variables)
    assert run(variables) == ["weir serve my.properties"]
