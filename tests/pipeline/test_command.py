"""`weir pipeline` in a shell: errors are reported before Spark starts, in one sentence."""

import contextlib
import json
import os
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from broker.__main__ import main
from pipeline.errors import first_line


def weir(*arguments):
    return CliRunner().invoke(main, ["pipeline", *map(str, arguments)])


@pytest.fixture
def closed_port():
    """Return an unused port of this machine."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def test_the_commands_are_listed_without_spark():
    done = weir("--help")
    assert done.exit_code == 0
    assert all(name in done.output for name in ("run", "backfill", "export", "tables", "maintain"))


def test_a_cluster_that_does_not_answer_is_reported(closed_port):
    done = weir("run", "--bootstrap", closed_port)
    assert done.exit_code == 1
    assert "no broker is reachable" in done.output and closed_port in done.output


@pytest.mark.parametrize("address", ["localhost", "localhost:", ":9092", "localhost:kafka"])
def test_an_address_that_is_none_is_refused(address):
    done = weir("run", "--bootstrap", address)
    assert done.exit_code == 2 and "HOST:PORT" in done.output


@pytest.mark.parametrize("pair", ["security.protocol", "=SSL"])
def test_an_option_that_is_no_pair_is_refused(pair, closed_port):
    done = weir("run", "--bootstrap", closed_port, "--option", pair)
    assert done.exit_code == 2 and "--option: expected KEY=VALUE" in done.output


def test_ctrl_c_ends_it_and_spark_at_once_in_a_word():
    script = (
        "from types import SimpleNamespace; from pipeline.command import _stop_handler; "
        "_stop_handler(SimpleNamespace(kill=lambda: print('killed', flush=True)))(2, None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "killed\n", "\nStopped.\n")


PROGRESS = """
import os, signal, threading
from pipeline.command import _stop_handler
from pipeline.progress import Progress
signal.signal(signal.SIGINT, _stop_handler(None))
shown, progress = threading.Event(), Progress()
texts = iter(["Reading [/events]", "Reading [/events] further"])
def what():
    text = next(texts, None)
    return text or shown.set() or ""
with progress.stage(what):
    shown.wait(WAITED)
    progress.line("batch 0: " + "1,000 [b]records " * 9)
    os.kill(os.getpid(), signal.SIGINT)
"""
LINE = b"batch 0: " + b"1,000 [b]records " * 9


def test_progress_is_plain_lines_without_a_terminal():
    command = [sys.executable, "-c", PROGRESS.replace("WAITED", "0")]
    done = subprocess.run(command, capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (130, b"Reading [/events]\n" + LINE + b"\n")


def test_a_terminal_shows_that_it_goes_on_without_an_escape_sequence():
    ours, its = os.openpty()
    command = [sys.executable, "-c", PROGRESS.replace("WAITED", "60")]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux's way to say that the other end is closed
            while piece := os.read(ours, 4_096):
                shown += piece
        os.close(ours)
    assert process.returncode == 130
    assert shown.startswith(b"\rReading [/events]\rReading [/events] further (1 s)")
    assert LINE + b"\r\n" in shown and shown.endswith(b"\r\nStopped.\r\n")
    assert b"\x1b" not in shown


def test_a_run_says_at_once_what_it_does(closed_port):
    """Before it looks for the broker, and before anything of Spark is imported."""
    done = weir("run", "--bootstrap", closed_port)
    assert done.output.splitlines()[0] == f"Looking for {closed_port}"


def test_old_versions_are_kept_for_a_week_at_least():
    assert weir("maintain", "--keep-hours", 167).exit_code == 2


def test_a_machine_without_java_is_reported(monkeypatch, tmp_path):
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = weir("maintain", "--warehouse", tmp_path)
    assert done.exit_code == 1 and "Java 17" in done.output


@pytest.fixture
def java(monkeypatch):
    """Pretend that Java is installed; the test never starts it."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: make test-pipeline installs it")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


@pytest.mark.parametrize("command", [("tables",), ("maintain",)])
def test_a_warehouse_without_tables_is_reported_before_spark_starts(java, tmp_path, command):
    done = weir(*command, "--warehouse", tmp_path / "nothing")
    assert done.exit_code == 1 and f"no tables at {tmp_path}" in done.output


def test_a_warehouse_that_is_a_file_is_reported_before_spark_starts(java, tmp_path):
    (tmp_path / "file").write_text("")
    done = weir("backfill", tmp_path, "--warehouse", tmp_path / "file/warehouse")
    assert done.exit_code == 1 and "is not a folder" in done.output


def test_a_warehouse_that_cannot_be_written_is_reported_before_spark_starts(java, tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.command.os.access", lambda _path, mode: not mode & os.W_OK)
    done = weir("backfill", tmp_path, "--warehouse", tmp_path / "new/warehouse")
    assert done.exit_code == 1 and f"{tmp_path} is not writable" in done.output


def test_files_that_are_not_there_are_reported_before_spark_starts(tmp_path):
    done = weir("backfill", tmp_path / "nothing", "--warehouse", tmp_path / "warehouse")
    assert (done.exit_code, done.output) == (1, f"Error: {tmp_path}/nothing does not exist\n")


def test_files_that_cannot_be_read_are_reported_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline.command.os.access", lambda *_: False)
    done = weir("backfill", tmp_path, "--warehouse", tmp_path / "warehouse")
    assert (done.exit_code, done.output) == (1, f"Error: {tmp_path} cannot be read\n")


def test_a_folder_that_is_there_is_not_exported_to(tmp_path, closed_port):
    done = weir("export", "--to", tmp_path, "--bootstrap", closed_port)
    assert done.exit_code == 1 and f"{tmp_path} already exists" in done.output


@pytest.fixture
def quotas(tmp_path):
    """Like advice.json of the Insights page."""
    path = tmp_path / "advice.json"
    limits = {"producer_byte_rate": 130, "request_percentage": 0.000018}
    path.write_text(json.dumps({"quotas": [{"entity": {"user": "alice"}, "limits": limits}]}, indent=2))
    return path


def test_a_quota_file_that_cannot_be_meant_is_reported_before_spark_starts(tmp_path, quotas):
    quotas.write_text(quotas.read_text().replace("producer_byte_rate", "producer_bytes"))
    done = weir("what-if", quotas, "--from", "2026-01-01", "--warehouse", tmp_path / "nothing")
    assert done.exit_code == 1 and "advice.json line" in done.output and "producer_bytes" in done.output


def test_advice_as_the_page_writes_it_is_a_quota_file(java, tmp_path, quotas):
    done = weir("what-if", quotas, "--from", "2026-01-01", "--warehouse", tmp_path / "nothing")
    assert done.exit_code == 1 and f"no tables at {tmp_path}" in done.output


def test_days_that_end_before_they_begin_are_refused(quotas):
    done = weir("what-if", quotas, "--from", "2026-01-02", "--to", "2026-01-01")
    assert done.exit_code == 2 and "--to must not be before --from" in done.output


@pytest.mark.parametrize(
    "wrong", [("--most", 0), ("--every", -1), ("--maintain-every", -1), ("--keep-gold", -2)]
)
def test_numbers_that_cannot_be_meant_are_refused(closed_port, wrong):
    assert weir("run", "--bootstrap", closed_port, *wrong).exit_code == 2


@pytest.mark.parametrize(("command", "package"), [("maintain", "delta"), ("tables", "deltalake")])
def test_a_machine_without_the_packages_is_reported(monkeypatch, tmp_path, command, package):
    (tmp_path / "bronze" / "events" / "_delta_log").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, package, None)
    done = weir(command, "--warehouse", tmp_path)
    assert done.exit_code == 1 and "pip install '.[pipeline]'" in done.output


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("", "RuntimeError"),
        ("one\ntwo", "one"),
        ("one\nCaused by: a\n\tat x\nCaused by: b", "one; b"),
        ("An error occurred while calling o1.x.\n: java.E: why\n\tat x", "java.E: why"),
        ("An error occurred while calling o1.x.\n: java.E: aborted\nCaused by: java.F: why", "java.F: why"),
        ("An error occurred while calling o1.x.", "An error occurred while calling o1.x."),
    ],
)
def test_of_a_java_error_its_reason_is_reported(error, line):
    assert first_line(RuntimeError(error)) == line
