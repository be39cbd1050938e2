"""Runs the tests in processes that are forked when everything is collected: `pytest --processes 4`.

A process of pytest-xdist imports and collects all tests for itself, which takes 25 to 50 s of processor
time in each; a forked one has them already, and shares their memory. Each process takes a file after the
other, so that a file's tests share its fixtures. The parent shows reports.

Half of the processes take files that wait, for a browser or a broker, and half those that compute; who finds
none left helps with the others. Of each kind the longest is taken first, so that all processes end together.
The seconds that a file took in the last run are in pytest's cache, which is there anyway: a list of them in
the repository would have to be kept up to date. A file that is not in the cache may be long, so it comes
before those that are, and without a cache the files of a kind stay in the order of the collection.
"""

import os
import signal
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from math import inf
from multiprocessing.connection import Connection, Pipe, wait
from typing import Final

import pytest
from _pytest.capture import CaptureManager
from _pytest.tmpdir import TempPathFactory

NUMBER: Final = "TEST_PROCESS"
"""The environment variable with the number of a process, from 0. Absent where all tests run in one."""

BROWSER: Final = "tests/webui/browser/"
"""These files come first, and together: a process starts one browser for all that it takes."""
WAITING: Final = (BROWSER, "tests/endtoend/", "tests/examples/", "tests/weir/", "tests/deploy/")
"""The folders whose tests wait for other programs."""
SECONDS: Final = "processes/seconds"
"""The key in pytest's cache of how long each file took."""

Group = list[int]
"""The positions of one file's tests in the collection."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("processes").addoption(
        "--processes", type=int, default=1, help="forked processes that the tests run in (1: none is forked)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    count = min(config.getoption("processes"), len({item.path for item in session.items}))
    if count < 2 or config.option.collectonly or session.testsfailed or config.getoption("usepdb"):
        return None
    Parent(session).run(count)
    return True


class Parent:
    """Hands the files out, and passes reports on to pytest. A process that dies fails the test that it ran,
    and another one takes the rest of its file.
    """

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._kinds = kinds(session.items, remembered(session.config))
        self._workers: dict[Connection, Worker] = {}
        self._seconds: dict[str, float] = defaultdict(float)

    def run(self, count: int) -> None:
        """Return when all tests are done. Raises what pytest raises where `--maxfail` ends a run."""
        folders(self._session.config).getbasetemp()  # in which each process has its own
        try:
            for number in range(count):
                self._fork(number)
            while self._workers:
                for connection in wait(list(self._workers)):
                    assert isinstance(connection, Connection)
                    self._receive(connection)
                    if self._session.shouldfail:
                        raise self._session.Failed(self._session.shouldfail)
                    if self._session.shouldstop:
                        raise self._session.Interrupted(self._session.shouldstop)
        finally:
            for worker in self._workers.values():
                os.kill(worker.pid, signal.SIGTERM)
                os.waitpid(worker.pid, 0)
        remember(self._session.config, self._seconds)

    def _fork(self, number: int) -> None:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for each in (ours, *self._workers):
                each.close()
            work(self._session, number, theirs)
        theirs.close()
        worker = self._workers[ours] = Worker(number, pid)
        self._give(ours, worker)

    def _give(self, connection: Connection, worker: "Worker") -> None:
        own, others = self._kinds[worker.number % 2], self._kinds[1 - worker.number % 2]
        queue = own or others
        group = queue.popleft() if queue else []
        worker.left.extend(group)
        connection.send(group)

    def _receive(self, connection: Connection) -> None:
        worker = self._workers[connection]
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionResetError):
            del self._workers[connection]
            connection.close()
            _, status = os.waitpid(worker.pid, 0)
            if worker.left:
                self._died(worker, os.waitstatus_to_exitcode(status))
            return
        hook = self._session.config.hook
        match kind:
            case "more":
                self._give(connection, worker)
            case "started":
                hook.pytest_runtest_logstart(nodeid=value[0], location=value[1])
            case "report":
                report = hook.pytest_report_from_serializable(config=self._session.config, data=value)
                self._seconds[file_of(report.nodeid)] += report.duration
                hook.pytest_runtest_logreport(report=report)
            case "ended":
                worker.left.popleft()
                hook.pytest_runtest_logfinish(nodeid=value[0], location=value[1])

    def _died(self, worker: "Worker", code: int) -> None:
        item = self._session.items[worker.left.popleft()]
        self._session.config.hook.pytest_runtest_logreport(
            report=pytest.TestReport(
                item.nodeid,
                item.location,
                {},
                "failed",
                f"the process of this test ended with {code}",
                "call",
            )
        )
        self._kinds[worker.number % 2].appendleft(list(worker.left))
        self._fork(worker.number)


class Worker:
    """A process as its parent knows it: `left` are the tests that it has not ended."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.left: deque[int] = deque()


class Sender:
    """Passes what pytest tells about a test on to the parent."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._connection.send(("started", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._connection.send(("ended", (nodeid, location)))


def work(session: pytest.Session, number: int, connection: Connection) -> None:
    """Run the tests that the parent names. Does not return; the parent's exit handlers are not called."""
    code = 1
    try:
        os.environ[NUMBER] = str(number)
        _separate(session.config, number)
        session.config.pluginmanager.register(Sender(session.config, connection), "sender")
        for item, following in pairs(session.items, connection):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        code = 0
    finally:
        connection.close()
        os._exit(code)


def _separate(config: pytest.Config, number: int) -> None:
    """Give up what is the parent's: its terminal, the file that captures output, its folder."""
    plugins = config.pluginmanager
    for name in ("terminalreporter", "junitxml", "lfplugin", "nfplugin", "stepwiseplugin"):
        if plugins.has_plugin(name):
            plugins.unregister(name=name)
    capture: CaptureManager = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    factory = folders(config)
    factory._basetemp = factory.getbasetemp() / f"process-{number}"
    factory._basetemp.mkdir(exist_ok=True)


def folders(config: pytest.Config) -> TempPathFactory:
    factory: TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]
    return factory


def kinds(items: list[pytest.Item], seconds: Mapping[str, float]) -> tuple[deque[Group], deque[Group]]:
    """The files that wait, and those that compute. The longest are first."""
    groups = [list(group) for _, group in groupby(range(len(items)), key=lambda number: items[number].path)]

    def file(group: Group) -> str:
        return file_of(items[group[0]].nodeid)

    groups.sort(key=lambda group: (not file(group).startswith(BROWSER), -seconds.get(file(group), inf)))
    waiting = deque(group for group in groups if file(group).startswith(WAITING))
    computing = deque(group for group in groups if not file(group).startswith(WAITING))
    return waiting, computing


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def remembered(config: pytest.Config) -> dict[str, float]:
    """How many seconds each file took when it ran last."""
    cache = cache_of(config)
    return {} if cache is None else cache.get(SECONDS, {})


def remember(config: pytest.Config, seconds: Mapping[str, float]) -> None:
    cache = cache_of(config)
    if cache is not None:
        rounded = {file: round(each, 2) for file, each in seconds.items()}
        cache.set(SECONDS, remembered(config) | rounded)


def cache_of(config: pytest.Config) -> pytest.Cache | None:
    """None with `-p no:cacheprovider`."""
    return getattr(config, "cache", None)


def pairs(
    items: list[pytest.Item], connection: Connection
) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one that follows it, which decides which fixtures are torn down: the next file is
    asked for before the last test of a file.
    """
    group: Group = connection.recv()
    while group:
        for here, there in pairwise(group):
            yield items[here], items[there]
        connection.send(("more", None))
        following: Group = connection.recv()
        yield items[group[-1]], items[following[0]] if following else None
        group = following
