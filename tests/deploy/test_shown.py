"""What `make` shows of a command that takes long: its last line, and all of its output if it fails."""

import io
import subprocess
import sys

import pytest

from deploy.shown import KEPT, in_short, shown
from pipeline.progress import Progress
from tests.conventions.sources import ROOT


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("Collecting pyspark==4.2.0 (from -r requirements/pipeline.txt (line 9))\n", None),
        (
            "  Downloading https://files.example/a/b/pyspark-4.2.0.tar.gz (434.2 MB)\n",
            "Downloading pyspark-4.2.0.tar.gz (434.2 MB)",
        ),
        ("  Downloading pyspark-4.2.0.tar.gz (434.2 MB)", "Downloading pyspark-4.2.0.tar.gz (434.2 MB)"),
        (
            "Downloading from central: https://maven.example/io/delta/delta-spark.jar",
            "Downloading delta-spark.jar",
        ),
        (
            "[INFO] Downloaded from central: https://maven.example/io/delta-spark.jar (8 MB at 2 MB/s)",
            "Downloaded delta-spark.jar (8 MB at 2 MB/s)",
        ),
        ("[\x1b[1;34mINFO\x1b[m] \x1b[1mBUILD SUCCESS\x1b[m\n", "[INFO] BUILD SUCCESS"),
        ("\n", ""),
    ],
)
def test_a_line_is_shown_in_short(line, short):
    assert in_short(line) == (line.strip() if short is None else short)


def run(script, is_terminal=True):
    """Return the status and what was shown."""
    out = io.StringIO()
    status = shown("Installing it", [sys.executable, "-c", script], Progress(out, is_terminal=is_terminal))
    return status, out.getvalue()


def test_a_command_that_works_leaves_nothing_on_a_terminal():
    status, written = run("print('Collecting a')")
    assert status == 0 and "Installing it" in written
    assert written.rpartition("\r")[2] == "" and "\n" not in written


def test_a_log_has_the_text_alone():
    assert run("print('Collecting a\\n' * 50)", is_terminal=False) == (0, "Installing it\n")


@pytest.mark.parametrize("lines", [KEPT - 1, KEPT, KEPT + 1])
def test_of_a_failure_the_last_lines_are_written_without_escapes(lines, capsys):
    script = f"import sys; [print(f'\\x1b[31m{{at}}\\x1b[m') for at in range({lines})]; sys.exit(3)"
    assert run(script, is_terminal=False) == (3, "Installing it\n")
    written = capsys.readouterr().err.splitlines()
    assert written == [str(at) for at in range(max(lines - KEPT, 0), lines)]


def test_the_status_is_that_of_the_command():
    command = [sys.executable, "-m", "deploy.shown", "Text", sys.executable, "-c", "raise SystemExit(7)"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (7, "Text\n")
