"""What holds for every test: connections that it opened are closed with it, and not when the collector
comes by; whatever else was left open is blamed on the file that left it, and not on the one that runs when
the collector happens to come by.
"""

import gc
import logging
import os
import resource
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from broker.common import slices
from broker.server.compiled import newer_source
from tests.support.processes import pytest_addoption, pytest_runtestloop
from tests.support.rotation import is_named, left_out, quarter_of
from tests.support.step_clock import StepClock
from tests.support.wire import OPENED

__all__ = ["pytest_addoption", "pytest_runtestloop"]

# How long an example takes says more about who shares the machine than about the code.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")


def pytest_sessionstart() -> None:
    """A compiled module hides its source: what is tested is what is there to read."""
    changed = newer_source()
    if changed is not None:
        pytest.exit(f"the compiled modules are older than {changed}: make compiled, or make interpreted", 4)


@pytest.fixture(autouse=True)
def _slices_are_counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is a number of steps for tests, and not a time that depends on the machine."""
    if request.node.get_closest_marker("timed") is None:
        monkeypatch.setattr(slices, "time", StepClock())


@pytest.fixture(autouse=True)
def _connections_end_with_their_test() -> Iterator[None]:
    yield
    for stream in OPENED:
        stream.socket._sock.close()
    OPENED.clear()


@pytest.fixture(autouse=True)
def _loggers_keep_their_levels() -> Iterator[None]:
    """A level that a test leaves behind would add log lines to tests that run after it."""
    before = [each.level for each in LOGGERS]
    yield
    after = logging.root.level
    for logger, level in zip(LOGGERS, before, strict=True):
        logger.setLevel(level)
    assert after == before[0], f"the test left the root logger at level {logging.getLevelName(after)}"


LOGGERS: Final = (logging.root, logging.getLogger("broker"), logging.getLogger("webui"))


ROTATION: Final = "ROTATION"
QUARTER: Final = pytest.StashKey[int | None]()
WAITING: Final = pytest.StashKey[int]()
"""Cases that wait for another commit."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ["WEIR_BUILD"] = "no"  # the programs that tests start are these sources
    try:
        quarter = quarter_of(os.environ.get(ROTATION, ""), config.rootpath)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[QUARTER] = quarter


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    refuse_clocks_of_fixtures(items)
    leave_out_what_waits(config, items)


CLOCKS: Final = ("autojump_clock", "mock_clock")


def refuse_clocks_of_fixtures(items: list[pytest.Item]) -> None:
    """Raises UsageError. Trio runs with the clock that the test itself asks for: with one that only a fixture
    asks for, the test waits for real seconds.
    """
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        for clock in CLOCKS:
            if clock in item.fixturenames and clock not in signature(item.function).parameters:
                raise pytest.UsageError(f"{item.nodeid}: a fixture asks for {clock}, and the test does not")


def leave_out_what_waits(config: pytest.Config, items: list[pytest.Item]) -> None:
    quarter = config.stash[QUARTER]
    if quarter is None:
        return
    directory = config.invocation_params.dir
    marked = {
        item.nodeid
        for item in items
        if item.get_closest_marker("rotates") and not is_named(item.nodeid, item.path, config.args, directory)
    }
    waiting = left_out(marked, quarter)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in waiting])
    items[:] = [item for item in items if item.nodeid not in waiting]
    config.stash[WAITING] = len(waiting)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(WAITING, 0):
        left = f"{config.stash[WAITING]} computed cases wait for another commit"
        terminalreporter.write_line(f"ROTATION={config.stash[QUARTER]}: {left}")


PAGE_BYTES: Final = resource.getpagesize()
RESIDENT: Final = pytest.StashKey[int]()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is collected lives as long as the run: the collector need not look at it meanwhile, nor after
    every file.
    """
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
    session.config.stash[RESIDENT] = resident_bytes()


FROZEN_BY_TESTS: Final = 150_000_000
"""Bytes that brokers of earlier tests leave frozen: each broker freezes its own. The count of frozen objects
would tell it exactly, but counting two million takes half a second.
"""


@pytest.fixture(autouse=True, scope="module")
def _garbage_is_found_with_its_file(pytestconfig: pytest.Config) -> Iterator[None]:
    yield
    gc.collect()
    if resident_bytes() > pytestconfig.stash.get(RESIDENT, 0) + FROZEN_BY_TESTS:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        pytestconfig.stash[RESIDENT] = resident_bytes()
