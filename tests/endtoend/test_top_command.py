"""`weir top` against a broker, in a terminal and out of one."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import PATIENCE, TOKEN, WEIR, BrokerProcess, within

pytestmark = pytest.mark.endtoend

HOSTILE = "evil\x1b]0;owned\x07\x1b[2J\u202e"
OURS = re.compile(r"\x1b\[(\?1049[hl]|\?25[hl]|H|[0-9]+;1H|[0-9;]*m)")
"""Every escape sequence that may be in a frame."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process, sending(process, HOSTILE):
        # The default's: a name with control characters in it can have no rule of its own.
        entry = {"entity": {"client-id": None}, "ops": [{"key": "producer_byte_rate", "value": 20_000}]}
        process.ask("PATCH", "/api/v1/client-quotas", {"entries": [entry]})
        within(20, lambda: process.throttled(HOSTILE), "the client is throttled")
        yield process


@contextmanager
def sending(broker: BrokerProcess, client_id: str) -> Iterator[None]:
    ended = threading.Event()

    def send() -> None:
        settings = {"bootstrap.servers": broker.plain, "client.id": client_id, "log_level": 0}
        producer = Producer(settings | {"enable.metrics.push": False, "queue.buffering.max.messages": 50})
        while not ended.is_set():
            try:
                producer.produce("t", bytes(5000))
                producer.poll(0.05)
            except BufferError:
                producer.poll(0.05)
        producer.purge()
        producer.flush(1)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def environment(broker: BrokerProcess, **more: str) -> dict[str, str]:
    names = {"WEIR_TOKEN": TOKEN, "WEIR_CONSOLE": f"http://{broker.console}", "TERM": "xterm-256color"}
    return {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | names | more


def weir_top(broker: BrokerProcess, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [WEIR, "top", *options],
        env=environment(broker, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def while_throttled(broker: BrokerProcess, *options: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """The client is unthrottled for short intervals."""
    for _ in range(5):
        done = weir_top(broker, *options, **more)
        if "No connection is throttled" not in done.stdout and '"throttled":{"items":[]' not in done.stdout:
            break
    return done


def test_without_a_terminal_it_lists_throttled_clients_once(broker: BrokerProcess) -> None:
    done = while_throttled(broker, COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace("\n", "").isprintable()
    lines = done.stdout.splitlines()
    assert "USED / LIMIT" in lines[lines.index("Throttled now") + 1]
    row = lines[lines.index("Throttled now") + 2]
    assert row.startswith(r"evil\x1b]0;owned\x07\x1b[2J\u202e")
    assert "produce" in row and "default client-id" in row and "/ 20 kB/s" in row
    assert "producer_byte_rate" in done.stdout.partition("Rules nearest")[2]


def test_an_encoding_without_a_character_shows_a_question_mark(broker: BrokerProcess) -> None:
    done = weir_top(broker, "--once", PYTHONIOENCODING="ascii", COLUMNS="60")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and "?" in done.stdout


def test_json_is_a_line_that_no_terminal_obeys(broker: BrokerProcess) -> None:
    done = while_throttled(broker, "--json", "--once")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.isascii() and done.stdout[:-1].isprintable()
    body = json.loads(done.stdout)
    assert [row["client_id"] for row in body["throttled"]["items"]] == [HOSTILE]
    assert body["usage"]["items"][0]["client_id"] == HOSTILE and "history" not in body["usage"]["items"][0]


def test_a_batch_goes_on_until_its_reader_has_seen_enough(broker: BrokerProcess) -> None:
    process = subprocess.Popen(
        [WEIR, "top", "--batch"],
        env=environment(broker),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stderr is not None
        heads = 0
        while heads < 2:
            heads += process.stdout.readline().startswith("weir ")
        process.stdout.close()
        assert (process.wait(20), process.stderr.read()) == (0, "")


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ([], {"WEIR_TOKEN": "wrong"}, "Error: Unknown token.\n"),
        ([], {"WEIR_TOKEN": "", "WEIR_ADMIN_TOKEN": ""}, "Error: no token: set WEIR_TOKEN or"),
        (["--console", "http://127.0.0.1:1"], {}, "Error: no console responds at http://127.0.0.1:1: "),
        (
            ["--console", "nonsense"],
            {},
            "Error: invalid console URL: nonsense (expected http:// or https://)\n",
        ),
    ],
)
def test_an_error_is_one_line(
    broker: BrokerProcess, options: list[str], more: Mapping[str, str], words: str
) -> None:
    done = weir_top(broker, *options, **more)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(words)


class Screen:
    """`weir top` in a terminal of its own: what it writes, and the keys that it is sent."""

    def __init__(self, broker: BrokerProcess, **more: str) -> None:
        self._terminal, child_end = pty.openpty()
        self.before = termios.tcgetattr(child_end)
        self.resize(100, 30)
        # In a group of its own: the system stops no process of a group without a parent in its session.
        self.process = subprocess.Popen(
            [WEIR, "top"],
            env=environment(broker, **more),
            stdin=child_end,
            stdout=child_end,
            stderr=child_end,
            process_group=0,
        )
        self._child_end = child_end
        self.written = ""

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def read(self, seconds: float) -> None:
        readable = select.poll()  # select.select takes no descriptor above 1,023
        readable.register(self._terminal, select.POLLIN)
        if readable.poll(seconds * 1000):
            self.written += os.read(self._terminal, 65536).decode("utf-8", "replace")

    def lines(self) -> list[str]:
        """The last frame that is whole, without its styles: each of its lines begins with its place."""
        frames = self.written.split("\x1b[1;1H")[1:]
        if len(frames) < 2:
            return []
        lines = re.split(r"\x1b\[[0-9]+;1H", frames[-2])
        return [OURS.sub("", line).rstrip() for line in lines]

    def until(self, look: Callable[[list[str]], object], what: str, seconds: float = 15) -> list[str]:
        deadline = time.monotonic() + seconds * PATIENCE
        while not (self.lines() and look(self.lines())):
            assert time.monotonic() < deadline, f"{what}:\n" + "\n".join(self.lines())
            self.read(0.1)
        return self.lines()

    def ended(self) -> int:
        deadline = time.monotonic() + 15 * PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self.read(0.05)
        self.read(0.2)
        assert termios.tcgetattr(self._child_end) == self.before, "the terminal's modes are others"
        assert self.written.endswith("\x1b[?25h\x1b[?1049l"), "the screen is not given back"
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._terminal)
        os.close(self._child_end)


@contextmanager
def terminal(broker: BrokerProcess, **more: str) -> Iterator[Screen]:
    screen = Screen(broker, **more)
    try:
        yield screen
    finally:
        screen.close()


def test_in_a_terminal_it_shows_throttled_clients_and_follows_its_keys_and_its_size(
    broker: BrokerProcess,
) -> None:
    with terminal(broker) as screen:
        shown = screen.until(lambda lines: any("evil" in line for line in lines), "the held client")
        assert len(shown) == 30 and max(map(len, shown)) <= 100
        screen.until(lambda lines: lines[0].split()[-2] != shown[0].split()[-2], "the next second")
        screen.press("/nobody")
        screen.until(lambda lines: "No match." in lines and lines[-1] == "/nobody_", "the filter")
        screen.press("\x1b")
        screen.until(lambda lines: "No match." not in lines, "no filter")
        screen.press("\t\t\x1b[C")
        screen.until(lambda lines: any("OUT v" in line for line in lines), "sorted by another column")
        screen.press("p")
        screen.until(lambda lines: "paused" in lines[0], "the pause")
        screen.resize(60, 12)
        small = screen.until(lambda lines: len(lines) == 12, "the smaller screen")
        assert max(map(len, small)) <= 60
        # Whatever was written, every escape in it is one of ours.
        assert OURS.sub("", screen.written).replace("\r", "").replace("\n", "").isprintable()
        assert "\x1b[33m" in screen.written
        screen.press("q")
        assert screen.ended() == 0


def test_without_colour_there_is_none(broker: BrokerProcess) -> None:
    with terminal(broker, NO_COLOR="1") as screen:
        screen.until(lambda lines: any("evil" in line for line in lines), "the held client")
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", screen.written)
        screen.process.send_signal(signal.SIGINT)
        assert screen.ended() == 0


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_that_understands_nothing_is_given_plain_text(broker: BrokerProcess, name: str) -> None:
    with terminal(broker, TERM=name) as screen:
        screen.process.wait(30)
        screen.read(1)
        assert "\x1b" not in screen.written and "Throttled now" in screen.written


def test_stopped_it_gives_the_terminal_back_and_goes_on_later(broker: BrokerProcess) -> None:
    with terminal(broker) as screen:
        screen.until(lambda lines: lines, "the first frame")
        screen.process.send_signal(signal.SIGTSTP)
        within(15, lambda: os.waitpid(screen.process.pid, os.WUNTRACED | os.WNOHANG)[0], "it is stopped")
        screen.read(0.2)
        assert screen.written.endswith("\x1b[?25h\x1b[?1049l")
        before = len(screen.written)
        screen.process.send_signal(signal.SIGCONT)
        screen.until(lambda _: "\x1b[?1049h" in screen.written[before:], "the screen again")
        screen.process.send_signal(signal.SIGTERM)
        assert screen.ended() == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_lost_console_makes_the_figures_stale_until_it_is_back(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as own, terminal(own) as screen:
        screen.until(lambda lines: "STALE" not in "".join(lines), "figures")
        own.kill()
        lines = screen.until(lambda lines: "STALE: " in lines[3], "that they are stale")
        assert "no console responds at" in lines[3] or "the console ended the stream" in lines[3]
        own.start()
        screen.until(lambda lines: "STALE" not in "".join(lines), "that they are fresh again", 30)
        screen.press("q")
        assert screen.ended() == 0
