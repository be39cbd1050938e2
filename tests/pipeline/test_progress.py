"""What a person sees while a command works: on a terminal a line that is rewritten, in a log few lines."""

import io
import threading

import pytest

from pipeline.progress import LOG_EVERY_S, Progress
from pipeline.work import Work


class Clock:
    """Gives the time that the test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Stage:
    """A stage of a progress, whose ticks are the test's: its own thread waits for an hour."""

    def __init__(self, is_terminal, monkeypatch):
        monkeypatch.setattr("pipeline.progress.TICK_S", 3_600.0)
        monkeypatch.setenv("COLUMNS", "40")
        self.out, self.clock = io.StringIO(), Clock()
        self.progress = Progress(self.out, self.clock, is_terminal)

    def after(self, seconds):
        """Return what is written when so much time has passed."""
        self.clock.now += seconds
        before = len(self.out.getvalue())
        self.progress.tick()
        return self.out.getvalue()[before:]

    def new(self, act, *arguments):
        before = len(self.out.getvalue())
        act(*arguments)
        return self.out.getvalue()[before:]


@pytest.fixture
def terminal(monkeypatch):
    return Stage(True, monkeypatch)


@pytest.fixture
def log(monkeypatch):
    return Stage(False, monkeypatch)


def test_a_terminal_shows_a_stage_at_once_and_counts_its_seconds(terminal):
    with terminal.progress.stage("Starting Spark"):
        assert terminal.out.getvalue() == "\rStarting Spark"
        assert terminal.after(0.9) == "\rStarting Spark"
        assert terminal.after(0.1) == "\rStarting Spark (1 s)"
        assert terminal.after(9) == "\rStarting Spark (10 s)"
    assert terminal.out.getvalue().endswith("\r" + " " * len("Starting Spark (10 s)") + "\r")


def test_a_line_that_stays_is_above_the_one_that_is_rewritten(terminal):
    with terminal.progress.stage("Reading"):
        shown = terminal.new(terminal.progress.line, "batch 0")
        assert shown == "\r       \rbatch 0\n\rReading"
        assert terminal.new(terminal.progress.often, "batch 1") == "\r       \rbatch 1\n\rReading"
    assert terminal.new(terminal.progress.line, "done") == "done\n"


def test_a_shorter_text_overwrites_a_longer_one(terminal):
    texts = iter(["a long text", "short", "mid size"])
    with terminal.progress.stage(lambda: next(texts)):
        assert terminal.after(0) == "\rshort      "
        assert terminal.after(0) == "\rmid size"


@pytest.mark.parametrize(("length", "shown"), [(38, 38), (39, 39), (40, 39)])
def test_a_text_has_one_line_of_the_terminal(terminal, length, shown):
    with terminal.progress.stage("x" * length):
        assert terminal.out.getvalue() == "\r" + "x" * shown


def test_a_log_has_a_line_at_once_and_then_one_in_a_minute(log):
    with log.progress.stage("Starting Spark"):
        assert log.out.getvalue() == "Starting Spark\n"
        assert log.after(LOG_EVERY_S - 1) == ""
        assert log.after(1) == "Starting Spark (60 s)\n"
        assert log.after(LOG_EVERY_S - 0.001) == ""
    with log.progress.stage("Checking the tables"):
        assert log.after(0) == ""
        assert log.after(1) == "Checking the tables (1 s)\n"


def test_a_log_has_the_last_of_many_lines_once_in_a_minute(log):
    progress = log.progress
    assert log.new(progress.often, "batch 0") == "batch 0\n"
    log.clock.now += 10
    assert log.new(progress.often, "batch 1") == log.new(progress.often, "batch 2") == ""
    with progress.stage("Reading"):
        assert log.after(LOG_EVERY_S - 10) == "batch 2\n"
        assert log.new(progress.often, "batch 3") == ""
    assert log.new(progress.flush) == "batch 3\n"
    assert log.new(progress.flush) == ""


def test_a_line_that_stays_is_always_in_a_log(log):
    with log.progress.stage("Reading"):
        for at in range(3):
            assert log.new(log.progress.line, f"Warning {at}") == f"Warning {at}\n"


def test_no_escape_sequence_is_written(terminal, log):
    for each in (terminal, log):
        with each.progress.stage("Reading"):
            each.progress.line("a")
            each.after(100)
        assert "\x1b" not in each.out.getvalue()


def test_a_stage_goes_on_by_itself(monkeypatch):
    monkeypatch.setattr("pipeline.progress.TICK_S", 0.001)
    ticks = threading.Semaphore(0)
    with Progress(io.StringIO(), is_terminal=True).stage(lambda: ticks.release() or "Reading"):
        assert all(ticks.acquire(timeout=60) for _ in range(3))


def work():
    clock = Clock()
    return Work(clock), clock


def test_what_a_batch_does_is_told_by_step_with_its_records():
    batch, clock = work()
    assert batch.text() == "Reading events"
    batch.begin("batch 3", {"__weir_requests": 9_000, "__weir_throttles": 1_000})
    assert batch.text() == "batch 3: 0 of 10,000 records done"
    batch.step_begins("__weir_requests")
    batch.step_begins("__weir_throttles")
    assert batch.text() == "batch 3: 0 of 10,000 records done; now requests 9,000, throttles 1,000"
    clock.now += 2
    batch.step_ends("__weir_throttles")
    # A tenth took two seconds.
    assert batch.text() == "batch 3: 1,000 of 10,000 records done; now requests 9,000; about 18 s left"
    batch.step_ends("__weir_requests")
    batch.end()
    assert batch.text() == "Waiting for events"
    batch.is_doing("Making the tables of whole days")
    assert batch.text() == "Making the tables of whole days"


def test_the_time_left_is_that_of_the_batches_before():
    batch, clock = work()
    batch.begin("batch 0", {"t": 1_000})
    clock.now += 10
    batch.end()
    batch.is_behind(5_000)
    batch.begin("batch 1", {"t": 2_000})
    assert batch.text() == "batch 1: 0 of 2,000 records done; 5,000 behind; about 1 min left"
    clock.now += 15
    batch.is_behind(0)
    assert batch.text() == "batch 1: 0 of 2,000 records done; about 5 s left"
    clock.now += 60
    assert batch.text().endswith("about 1 s left")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (59, "59 s"), (60, "1 min"), (3_599, "60 min"), (3_600, "1.0 h"), (9_000, "2.5 h")],
)
def test_a_time_is_told_in_one_unit(seconds, words):
    batch, clock = work()
    batch.begin("batch 0", {"t": 1})
    clock.now += 1
    batch.end()
    batch.begin("batch 1", {"t": seconds})
    assert batch.text().endswith(f"about {words} left")
