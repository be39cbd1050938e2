"""What Spark writes while it starts stays off the terminal; of a failure one sentence is left."""

import subprocess
import sys

import pytest

from pipeline.start_log import AT_ONCE, NOT_FETCHED, NOT_STARTED, reason_in

SCRIPT = """
import os, subprocess, sys
from pipeline import start_log
with start_log.kept() as log:
    print("ours within", file=sys.stderr)
    child = subprocess.Popen([sys.executable, "-c", {child!r}])
    child.wait()
    reason = log.reason(RuntimeError("the JVM ended"))
print("ours after", file=sys.stderr)
print(reason)
"""
CHATTER = "import sys; sys.stderr.write(':: loading settings ::\\n' * 10 + {last!r})"


def _run(last: str) -> "subprocess.CompletedProcess[str]":
    script = SCRIPT.format(child=CHATTER.format(last=last))
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_standard_error_of_the_block_and_its_processes_is_kept_and_read():
    done = _run("Error: Could not create the Java Virtual Machine.\n")
    assert (done.returncode, done.stderr) == (0, "ours after\n")
    assert done.stdout == "Spark did not start: Could not create the Java Virtual Machine.\n"


@pytest.mark.parametrize(("more", "is_found"), [(-1, True), (0, True), (1, False)])
def test_the_last_mebibyte_has_the_reason(more, is_found):
    line = "Error: this\n"
    padding = " " * (AT_ONCE - len(line) + more - 1) + "\n"
    assert ("Spark did not start: this\n" in _run_padded(line, len(padding))) is is_found


def _run_padded(line: str, padding: int) -> str:
    child = f"import sys; sys.stderr.write({line!r} + ' ' * {padding - 1} + chr(10))"
    script = SCRIPT.format(child=child)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60).stdout


NO_HOST = "\tHost maven.example not found. url=https://maven.example/io/delta/a.pom\n"
NO_ANSWER = "\tServer access error at url https://maven.example/a.pom (java.net.ConnectException: refused)\n"
UNRESOLVED = """\
\t\tmodule not found: io.delta#delta-spark_4.2_2.13;4.4.0
\t:: io.delta#delta-spark_4.2_2.13;4.4.0: not found
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: \
io.delta#delta-spark_4.2_2.13;4.4.0: not found]
\tat org.apache.spark.deploy.SparkSubmitUtils$.resolveMavenCoordinates(SparkSubmit.scala:1528)
"""


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("", NOT_STARTED.format("the JVM ended")),
        (UNRESOLVED, NOT_FETCHED.format("io.delta:delta-spark_4.2_2.13:4.4.0 was not found")),
        (NO_HOST + UNRESOLVED, NOT_FETCHED.format("Host maven.example not found")),
        (
            NO_ANSWER + UNRESOLVED,
            NOT_FETCHED.format(
                "Server access error at url https://maven.example/a.pom (java.net.ConnectException: refused)"
            ),
        ),
        (
            'WARN x: y\nException in thread "main" java.lang.E: why\n\tat a.b\nCaused by: java.F: other\n',
            NOT_STARTED.format("java.lang.E: why"),
        ),
        (":: loading settings ::\n", NOT_STARTED.format("the JVM ended")),
    ],
)
def test_the_reason_is_one_sentence(written, reason):
    assert reason_in(written, RuntimeError("the JVM ended")) == reason
