"""A broker of its own for tests of Kafka clients: a process, free ports, and a folder that is deleted.

    with Broker(num_partitions=3) as broker:                 # as server.properties has it: num.partitions
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Public; docs/testing.md explains it, and `weir.pytest_plugin` has it as a fixture. It uses the console's REST
API, and nothing of the packages of Weir: these are in the other process only.
"""

import base64
import contextlib
import http.client
import json
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlsplit

__all__ = ["DEFAULT", "AsyncBroker", "Broker", "BrokerError", "Record", "Throttle"]

STARTED_WITHIN_S: Final = 60.0
STOPPED_WITHIN_S: Final = 20.0
ANSWERED_WITHIN_S: Final = 30.0
ENDED_WITHIN_S: Final = 1.0
"""The connections of a process that is killed end before the process has."""

OUR_DEFAULTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "console.listener": "127.0.0.1:0",
    # A test need not wait for members that do not come.
    "group.initial.rebalance.delay.ms": "0",
    # The most that they can be, so that `records` needs few requests.
    "console.browse.max.records": "1000",
    "console.browse.max.shown.bytes": "1048576",
}
FREE_PORT: Final = re.compile(r"([^,/\s]*):0(?=\s*(?:,|$))")
GREETING: Final = re.compile(r"^Kafka: +([^,\s]+).*^REST: +(http\S+)api/v1/\n", re.DOTALL | re.MULTILINE)
IGNORED: Final = re.compile(r"unknown key .*; it is ignored.*")

_T = TypeVar("_T")


class BrokerError(Exception):
    """The broker did not start, ended by itself, did not answer, or refused what was asked of it."""


class _Default(Enum):
    DEFAULT = "<default>"


DEFAULT: Final = _Default.DEFAULT
"""The default user, client id or address of a quota, as `--entity-default` of kafka-configs.sh."""

Name = str | Literal[_Default.DEFAULT] | None


class Record(NamedTuple):
    """A record of a topic. `timestamp` is in milliseconds; a tombstone's value is None."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Throttle(NamedTuple):
    """A connection that the broker reads nothing from now, because its client exceeds a quota.

    `quota` is its kind: produce, fetch, request, controller_mutation or connection_rate. `rule` is the entity
    that matched: {"client-id": "app"}; None as a name is the default entity. `observed` and `limit` are in
    the unit of the quota, `remaining_ms` of `throttle_ms` are left.
    """

    principal: str
    client_id: str
    address: str
    quota: str
    rule: Mapping[str, str | None]
    observed: float | None
    limit: float
    throttle_ms: int
    remaining_ms: int


class Broker:
    """`weir serve` in a process of its own, for the time of a `with` block.

    Settings are the keys of server.properties, in a mapping or as keywords with underscores for dots; ports
    are free ones. `async with` gives an AsyncBroker. The process ends with this one, however it ends.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        self._given = {**(settings or {}), **{key.replace("_", "."): v for key, v in keywords.items()}}
        self._token = secrets.token_hex(16)
        self._bootstrap = self._console = ""
        self._settings: dict[str, str] = {}
        self._folder: Path | None = None
        self._log_file: Path | None = None
        self._held: list[socket.socket] = []
        self._process: subprocess.Popen[bytes] | None = None
        # A cancelled `async with` closes the broker in another thread than the one that may still start it.
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        """Start the broker. Raises BrokerError with what it wrote to stderr."""
        with self._lock:
            self._folder = Path(tempfile.mkdtemp(prefix="weir-test-"))
            self._log_file = self._folder / "stderr.log"
            self._log_file.touch()
            try:
                self._settings = {"log.dirs": str(self._folder / "data"), **OUR_DEFAULTS}
                self._settings |= {key: _text_of(value) for key, value in self._given.items()}
                for key in ("listeners", "console.listener"):
                    self._settings[key] = FREE_PORT.sub(self._hold_port, self._settings[key])
                if not self._settings["console.listener"].strip():
                    raise BrokerError("console.listener is empty, but a Broker needs its console")
                self._start()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the broker and delete its folder. If it ended by itself, raise BrokerError, or add a note to
        the error of the block.
        """
        with self._lock:
            ended = self._how_it_ended()
            self._close()
        if ended is not None and error is not None:
            error.add_note(ended)
        elif ended is not None:
            raise BrokerError(ended)

    async def __aenter__(self) -> "AsyncBroker":
        try:
            await _threaded(self.__enter__)
        except BaseException:
            await self._finish(None)  # noqa: ASYNC102 - it shields itself
            raise
        return AsyncBroker(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish(error)  # noqa: ASYNC102 - it shields itself

    async def _finish(self, error: BaseException | None) -> None:
        import anyio

        # A start in another thread may end first.
        with anyio.move_on_after(STARTED_WITHIN_S + STOPPED_WITHIN_S, shield=True):
            await _threaded(lambda: self.__exit__(None, error, None))

    @property
    def bootstrap_servers(self) -> str:
        """The address of the first listener, as host:port."""
        return self._bootstrap

    @property
    def port(self) -> int:
        """The port of `bootstrap_servers`."""
        return int(self._bootstrap.rpartition(":")[2])

    @property
    def console_url(self) -> str:
        """The console, which `token` opens. The REST API is below it, at api/v1/."""
        return self._console

    @property
    def token(self) -> str:
        """The administrator's token."""
        return self._token

    @property
    def pid(self) -> int:
        """The broker's process, to be stopped with SIGSTOP, for instance. Raises BrokerError without one."""
        return self._running().pid

    @property
    def log_file(self) -> Path:
        """What the broker writes to stderr, in a file that the end of the block deletes. Raises BrokerError
        before the block.
        """
        if self._log_file is None:
            raise BrokerError("the `with` block of the broker has not begun")
        return self._log_file

    def set_quota(
        self, *, user: Name = None, client_id: Name = None, ip: Name = None, **limits: float | None
    ) -> None:
        """Set limits of a user, a client id, both, or an address: producer_byte_rate=1000; None removes one.
        The next request obeys.
        """
        names = {"user": user, "client-id": client_id, "ip": ip}
        entity = {kind: None if name is DEFAULT else name for kind, name in names.items() if name is not None}
        ops = [{"key": key} | ({"remove": True} if v is None else {"value": v}) for key, v in limits.items()]
        self._ask("PATCH", "client-quotas", {"entries": [{"entity": entity, "ops": ops}]})

    def throttled(self) -> list[Throttle]:
        """Return the connections that are throttled at this moment, the longest remaining throttle first."""
        return [
            Throttle(
                row["principal"],
                row["client_id"],
                row["address"],
                row["quota_type"],
                row["entity"],
                row["observed"],
                row["bound"],
                row["throttle_ms"],
                row["remaining_ms"],
            )
            for row in self._ask("GET", "throttled-channels?limit=1000")["items"]
        ]

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic; `configs` are its settings, with underscores for dots."""
        texts = {key.replace("_", "."): _text_of(value) for key, value in configs.items()}
        self._ask("POST", "topics", {"name": name, "partitions": partitions, "configs": texts})

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records."""
        self._ask("DELETE", f"topics/{quote(name, safe='')}")

    def records(self, topic: str) -> list[Record]:
        """Return all records of a topic, by partition and offset, also those of open and aborted
        transactions.
        """
        path = f"topics/{quote(topic, safe='')}"
        found: list[Record] = []
        body: dict[str, Any] = {"from": {"earliest": True}, "limit": 1000}
        while "cursor" not in body or body["cursor"] is not None:
            page = self._ask("POST", f"{path}/records:browse", body)
            if page["unreadable"]:
                raise BrokerError(f"{topic} has damaged batches: {page['unreadable']}")
            found += (self._record(path, item) for item in page["items"])
            body = {"cursor": page["next"], "limit": 1000}
        return sorted(found, key=lambda record: (record.partition, record.offset))

    def stop(self) -> None:
        """Stop the broker as SIGTERM does; its data and ports are kept for `restart`. Raises BrokerError if
        it has ended by itself, does not end, or fails.
        """
        with self._lock:
            process = self._running()
            process.terminate()
            process.send_signal(signal.SIGCONT)  # a test may have sent it SIGSTOP
            try:
                process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                raise BrokerError(
                    f"the broker did not stop in {STOPPED_WITHIN_S:.0f} s, and was killed"
                ) from None
            finally:
                self._end()
            if process.returncode != 0:
                raise BrokerError(f"the broker stopped: {_status_text(process.returncode)}")

    def kill(self) -> None:
        """End the broker as kill -9 does; its data and ports are kept for `restart`."""
        with self._lock:
            self._running()
            self._end()

    def restart(self) -> None:
        """Start the broker again with the same data and ports; one that runs is stopped before. Raises
        BrokerError as the first start does.
        """
        with self._lock:
            if self._folder is None:
                raise BrokerError("the `with` block of the broker has ended, or has not begun")
            if self._process is not None and self._process.poll() is None:
                self.stop()
            self._end()
            self._start()

    def _hold_port(self, match: re.Match[str]) -> str:
        """Return host:port with a free port for a host:0.

        A socket that is bound and does not listen keeps the port from others, also while the broker is
        stopped, and lets the broker bind it. (Linux: all of them have SO_REUSEADDR)
        """
        host = match[1].strip("[]")
        held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._held.append(held)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # the broker says what is wrong with the host
            held.bind((host, 0))
            return f"{match[1]}:{held.getsockname()[1]}"
        return match[0]

    def _start(self) -> None:
        """Return when the broker serves clients. Leaves no process behind if it raises BrokerError."""
        assert self._folder is not None
        environ = {key: value for key, value in os.environ.items() if not key.startswith("WEIR_")}
        before = self.log_file.stat().st_size
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, without a shell
                [
                    *(sys.executable, "-P", "-m", "weir.testing_process", str(self._folder), "serve"),
                    *(f"--override={key}={value}" for key, value in self._settings.items()),
                ],
                env=environ | {"WEIR_ADMIN_TOKEN": self._token},
                # It ends when this pipe does, so with this process at the latest.
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,  # Ctrl-C is for the tests, which then stop it
            )
        try:
            greeting = self._greeting(self._process, before)
            wrong = IGNORED.search(self._log_from(before))
            if wrong is not None:
                raise BrokerError(f"the broker has no such setting: {wrong[0]}")
        except BaseException:
            self._end()
            raise
        self._bootstrap, self._console = greeting[1], greeting[2]

    def _greeting(self, process: "subprocess.Popen[bytes]", before: int) -> re.Match[str]:
        """Wait for what the broker prints once it serves clients."""
        assert process.stdout is not None
        output = process.stdout.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        late_at = time.monotonic() + STARTED_WITHIN_S
        text = ""
        while (found := GREETING.search(text)) is None:
            if not poll.poll(max(0.0, late_at - time.monotonic()) * 1000):
                wait = f"the broker did not serve clients within {STARTED_WITHIN_S:.0f} s"
                raise BrokerError(f"{wait}:\n{text}{self._log_from(before)}")
            piece = os.read(output, 65536)
            if not piece:
                status = _status_text(process.wait())
                raise BrokerError(f"the broker did not start: {status}\n{self._log_from(before)}")
            text += piece.decode()
        return found

    def _end(self) -> None:
        """Kill the process if there is one, and close its pipes."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def _close(self) -> None:
        """Stop the broker, and delete what it used."""
        try:
            if self._process is not None and self._process.poll() is None:
                self.stop()
        finally:
            self._end()
            for held in self._held:
                held.close()
            self._held.clear()
            folder, self._folder = self._folder, None
            if folder is not None:
                shutil.rmtree(folder)

    def _running(self) -> "subprocess.Popen[bytes]":
        """Return the process. Raises BrokerError if there is none, or if it has ended."""
        process = self._process
        if process is None:
            raise BrokerError("the broker is not running")
        ended = self._how_it_ended()
        if ended is not None:
            raise BrokerError(ended)
        return process

    def _how_it_ended(self) -> str | None:
        """Return the status and the last lines of a broker that ended by itself."""
        if self._process is None or self._process.poll() is None:
            return None
        last = "\n".join(self._log_from(0).splitlines()[-20:])
        return f"the broker ended by itself: {_status_text(self._process.returncode)}\n{last}"

    def _log_from(self, position: int) -> str:
        """Return the log from a byte of it on."""
        with self.log_file.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")

    def _record(self, path: str, item: Mapping[str, Any]) -> Record:
        """Return a record of the answer of records:browse."""
        place = f"{path}/partitions/{item['partition']}/records/{item['offset']}"
        parts = {
            part: self._request("GET", f"{place}?part={part}")
            if item[part] is not None and item[part]["is_truncated"]
            else _bytes_of(item[part])
            for part in ("key", "value")
        }
        headers = [((_bytes_of(h["name"]) or b"").decode(), _bytes_of(h["value"])) for h in item["headers"]]
        return Record(item["partition"], item["offset"], item["timestamp_ms"], **parts, headers=headers)

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of an answer of the REST API, None if it has none."""
        answer = self._request(method, path, body)
        return json.loads(answer) if answer else None

    def _request(self, method: str, path: str, body: object = None) -> bytes:
        """Return the body of an answer of the REST API. Raises BrokerError with the reason of a refusal."""
        process = self._running()
        at = urlsplit(self._console)
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=ANSWERED_WITHIN_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/v1/{path}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDED_WITHIN_S)
            self._running()
            raise BrokerError(f"the console at {self._console} does not answer: {error!r}") from error
        finally:
            connection.close()
        if response.status >= 400:
            raise BrokerError(f"the broker refused {method} {path}: {_reason(answer)}")
        return answer


class AsyncBroker:
    """A Broker for tasks of Trio and asyncio: the same methods, as coroutines that hold up no other task.

    `async with Broker(...)` makes one; AsyncBroker(broker) is one for a broker that runs already. A cancelled
    call ends at once where it asks the broker, which may still do what it was asked. `stop`, `kill` and
    `restart` are finished before they end.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    @property
    def bootstrap_servers(self) -> str:
        """As Broker.bootstrap_servers."""
        return self.broker.bootstrap_servers

    @property
    def port(self) -> int:
        """As Broker.port."""
        return self.broker.port

    @property
    def console_url(self) -> str:
        """As Broker.console_url."""
        return self.broker.console_url

    @property
    def token(self) -> str:
        """As Broker.token."""
        return self.broker.token

    @property
    def pid(self) -> int:
        """As Broker.pid."""
        return self.broker.pid

    @property
    def log_file(self) -> Path:
        """As Broker.log_file."""
        return self.broker.log_file

    async def set_quota(
        self, *, user: Name = None, client_id: Name = None, ip: Name = None, **limits: float | None
    ) -> None:
        """As Broker.set_quota."""
        await _threaded(
            lambda: self.broker.set_quota(user=user, client_id=client_id, ip=ip, **limits), is_left=True
        )

    async def throttled(self) -> list[Throttle]:
        """As Broker.throttled."""
        return await _threaded(self.broker.throttled, is_left=True)

    async def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """As Broker.create_topic."""
        await _threaded(lambda: self.broker.create_topic(name, partitions, **configs), is_left=True)

    async def delete_topic(self, name: str) -> None:
        """As Broker.delete_topic."""
        await _threaded(lambda: self.broker.delete_topic(name), is_left=True)

    async def records(self, topic: str) -> list[Record]:
        """As Broker.records."""
        return await _threaded(lambda: self.broker.records(topic), is_left=True)

    async def stop(self) -> None:
        """As Broker.stop."""
        await _threaded(self.broker.stop)

    async def kill(self) -> None:
        """As Broker.kill."""
        await _threaded(self.broker.kill)

    async def restart(self) -> None:
        """As Broker.restart."""
        await _threaded(self.broker.restart)


async def _threaded(function: Callable[[], _T], *, is_left: bool = False) -> _T:
    """Call it in a worker thread, which is left alone (`is_left`) or waited for if this is cancelled."""
    # Imported here: most tests need it not, and it takes longer than all else.
    import anyio.to_thread

    return await anyio.to_thread.run_sync(function, abandon_on_cancel=is_left)


def _text_of(value: object) -> str:
    """Return a value as server.properties has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(map(_text_of, value))
    return str(value)


def _bytes_of(part: Mapping[str, Any] | None) -> bytes | None:
    """Return the bytes of a key, value or header of the REST API."""
    if part is None:
        return None
    text: str | None = part["text"]
    return base64.b64decode(part["base64"]) if text is None else text.encode()


def _reason(answer: bytes) -> str:
    """Return the reason of a problem document."""
    try:
        problem = json.loads(answer)
        return " ".join(str(problem[field]) for field in ("code", "detail", "where") if field in problem)
    except (ValueError, TypeError):
        return answer.decode(errors="replace")


def _status_text(status: int) -> str:
    """Return the exit status of a process in words."""
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
