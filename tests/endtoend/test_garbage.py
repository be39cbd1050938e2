"""Nothing that has lived long ends as a cycle: the collector freezes what has survived it for a minute, and
what is frozen is freed by reference counting or never (broker.server.interpreter).

Each case lives until everything is frozen, and ends; what the collector then finds among what was frozen is
what the broker would keep for ever. The cases run in a process of their own, because the collector walks
through everything that a process holds. The longest walk of a large broker is measured here, too.
"""

import gc
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.protocol.messages.metadata import MetadataRequest
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from broker.server import interpreter
from tests.support.certificates import certificates
from tests.support.machine_speed import WITHIN_S, slowness
from tests.support.running import RunningBroker, running_broker
from tests.support.wire import OPENED, WireClient, connect, connect_tls
from tests.webui.crowded import Size, crowded

pytestmark = pytest.mark.endtoend

COPIES: Final = 5
LONGEST_MS: Final = 5.0
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BAD_REQUEST: Final = bytes.fromhex("0000000c 7fff 0000 00000001 0000 0000")
STREAM: Final = "/api/v1/events?topics=overview"


@dataclass
class Place:
    """Where the broker of a test is."""

    broker: RunningBroker
    plain: int
    sasl: int
    tls: int
    console: int
    token: str
    is_encrypted: bool

    async def http(self, target: str, *, authorized: bool = True) -> Any:
        """A connection of the console that has been answered."""
        stream: Any = await trio.open_tcp_stream("127.0.0.1", self.console)
        if self.is_encrypted:
            context = certificates().client_context()
            stream = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
        fields = f"Host: weir-{self.console}.localhost:{self.console}\r\n"
        if authorized:
            fields += f"Authorization: Bearer {self.token}\r\n"
        await stream.send_all(f"GET {target} HTTP/1.1\r\n{fields}\r\n".encode())
        assert (await stream.receive_some(65_536)).startswith(b"HTTP/1.1 ")
        return stream


async def abort(stream: Any) -> None:
    """Closes it without a word. The client's own cycle is none of the broker's."""
    await trio.aclose_forcefully(stream)
    if isinstance(stream, trio.SSLStream):
        vars(stream).clear()


async def abort_client(client: WireClient) -> None:
    await abort(client.stream)


End = Callable[[], Awaitable[Any]]
Case = Callable[[Place], Awaitable[End]]
"""Brings something to life, and returns what ends it."""


async def kafka_connection(place: Place) -> End:
    client = await connect(place.plain)
    await client.ask(MetadataRequest([]), 9)
    return partial(abort_client, client)


async def silent_connection(place: Place) -> End:
    return partial(abort_client, await connect(place.plain))


async def invalid_request(place: Place) -> End:
    client = await connect(place.plain)
    await client.ask(MetadataRequest([]), 9)

    async def end() -> None:
        await client.stream.send_all(BAD_REQUEST)
        assert await client.is_closed()
        await abort(client.stream)

    return end


async def fetch_that_waits(place: Place) -> End:
    client = await connect(place.plain)
    topic = FetchTopic("soak", partitions=[FetchPartition(0, partition_max_bytes=1_000)])
    await client.send(FetchRequest(max_wait_ms=1_000, min_bytes=1, topics=[topic]), 11)
    return partial(abort_client, client)


async def group_member(place: Place) -> End:
    client = await connect(place.plain)
    protocols = [JoinGroupRequestProtocol("range", b"subscription")]
    member = ""
    for _ in range(2):
        request = JoinGroupRequest(f"group-{id(client)}", 10_000, 10_000, member, None, "consumer", protocols)
        member = (await client.ask(request, 5)).member_id
    return partial(abort_client, client)


async def sasl(place: Place, password: bytes) -> End:
    client = await connect(place.sasl)
    assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0

    async def end() -> None:
        answer = await client.ask(SaslAuthenticateRequest(b"\0alice\0" + password), 2)
        if answer.error_code == 0:
            await client.ask(MetadataRequest([]), 9)
        else:
            assert await client.is_closed()
        await abort(client.stream)

    return end


async def sasl_that_never_authenticates(place: Place) -> End:
    client = await connect(place.sasl)
    await client.ask(SaslHandshakeRequest("PLAIN"), 1)
    return partial(abort_client, client)


async def tls_connection(place: Place) -> End:
    client = await connect_tls(place.tls, certificates().client_context())
    await client.ask(MetadataRequest([]), 9)
    return partial(abort_client, client)


async def tls_that_is_none(place: Place) -> End:
    client = await connect(place.tls)

    async def end() -> None:
        await client.stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        assert await client.is_closed()
        await abort(client.stream)

    return end


async def tls_handshake_that_stalls(place: Place) -> End:
    client = await connect(place.tls)
    await client.stream.send_all(b"\x16\x03\x01")
    return partial(abort_client, client)


async def console_request(place: Place, target: str) -> End:
    return partial(abort, await place.http(target))


async def console_request_that_is_refused(place: Place) -> End:
    return partial(abort, await place.http("/api/v1/overview", authorized=False))


async def console_connection_that_ends_with_an_invalid_request(place: Place) -> End:
    stream = await place.http("/api/v1/overview")

    async def end() -> None:
        await stream.send_all(b"garbage\r\n\r\n")
        with trio.move_on_after(5):
            while await stream.receive_some(65_536):
                pass
        await abort(stream)

    return end


async def console_connection_that_says_nothing(place: Place) -> End:
    return partial(abort, await trio.open_tcp_stream("127.0.0.1", place.console))


async def console_handshake_that_fails(place: Place) -> End:
    stream = await trio.open_tcp_stream("127.0.0.1", place.console)

    async def end() -> None:
        await stream.send_all(b"\x16\x03\x01\0\x05wrong")
        with trio.move_on_after(5):
            while await stream.receive_some(65_536):
                pass
        await abort(stream)

    return end


KAFKA: Final[dict[str, Case]] = {
    "a connection": kafka_connection,
    "a silent connection": silent_connection,
    "an invalid request": invalid_request,
    "a fetch that waits": fetch_that_waits,
    "a member of a group": group_member,
    "SASL": partial(sasl, password=b"secret"),
    "a failed login": partial(sasl, password=b"wrong"),
    "SASL that never authenticates": sasl_that_never_authenticates,
    "TLS": tls_connection,
    "TLS that is none": tls_that_is_none,
    "a TLS handshake that stalls": tls_handshake_that_stalls,
}

CONSOLE: Final[dict[str, Case]] = {
    "an API request": partial(console_request, target="/api/v1/overview"),
    "a page": partial(console_request, target="/"),
    "Prometheus": partial(console_request, target="/metrics"),
    "a path that does not exist": partial(console_request, target="/nothing"),
    "a request that is refused": console_request_that_is_refused,
    "a stream": partial(console_request, target=STREAM),
    "an invalid request": console_connection_that_ends_with_an_invalid_request,
    "a silent connection": console_connection_that_says_nothing,
    "a handshake that fails": console_handshake_that_fails,
}


@asynccontextmanager
async def started(directory: Path, *more: str) -> AsyncIterator[Place]:
    known = certificates()
    settings = (
        "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        f"ssl.keystore.location={known.server.store}",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={MODULE} user_alice="secret";',
        "console.listener=127.0.0.1:0",
        "group.initial.rebalance.delay.ms=0",
        *more,
    )
    async with running_broker(directory, *settings) as broker:
        console = broker.started.console
        assert console is not None and console.token is not None
        scheme, _, rest = console.address.partition("://")
        ports = [int(each.rpartition(":")[2]) for each in broker.started.bootstrap]
        place = Place(
            broker, *ports, int(rest.split("/")[0].rpartition(":")[2]), console.token, scheme == "https"
        )
        client = await connect(place.plain)
        await client.ask(CreateTopicsRequest([CreatableTopic("soak", 1, 1)], 5_000), 5)
        await client.stream.aclose()
        yield place


async def lived(place: Place, case: Case) -> None:
    """Some copies live until everything is frozen, and end."""
    ends = [await case(place) for _ in range(COPIES)]
    await trio.sleep(0.05)
    gc.collect()
    gc.freeze()
    while ends:
        await ends.pop()()
    await gone(place)
    await trio.sleep(0.2)


async def gone(place: Place) -> None:
    """Every connection of the Kafka listeners has ended."""
    OPENED.clear()
    with trio.fail_after(WITHIN_S):
        while list(place.broker.server.socket_server.channels()):  # noqa: ASYNC110 - the peer sees no event
            await trio.sleep(0.01)


def left_behind() -> Counter[str]:
    """The types of what only a collector that looks at everything would free."""
    gc.collect()
    gc.unfreeze()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()


async def leaks(place: Place, cases: dict[str, Case]) -> dict[str, Any]:
    vars(interpreter)["MAX_WALKED"] = vars(interpreter)["MAX_REFERENCES"] = 10**9  # everything is walked here
    vars(interpreter)["CHECKS"] = 10**9  # and frozen by the test
    found = {}
    for case in cases.values():
        await (await case(place))()  # what is made once is no leak
        await gone(place)
    await trio.sleep(0.2)
    left_behind()
    for name, case in cases.items():
        await lived(place, case)
        if left := left_behind():
            found[name] = left
    return found


async def look(directory: Path, cases: dict[str, Case], *, is_encrypted: bool) -> None:
    """Prints the leaks of each case, and how many cases there were."""
    more = [f"console.ssl.keystore.location={certificates().server.store}"] if is_encrypted else []
    async with started(directory, *more) as place:
        assert place.is_encrypted == is_encrypted
        print(json.dumps([len(cases), await leaks(place, cases)]))


@pytest.mark.parametrize(("cases", "is_encrypted"), [("KAFKA", False), ("CONSOLE", False), ("CONSOLE", True)])
def test_no_connection_leaves_a_cycle(tmp_path: Path, cases: str, is_encrypted: bool) -> None:
    own = f"""\
import pathlib, trio
from tests.endtoend import test_garbage as garbage
trio.run(lambda: garbage.look(pathlib.Path({str(tmp_path)!r}), garbage.{cases}, is_encrypted={is_encrypted}))
"""
    done = subprocess.run([sys.executable, "-c", own], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [len(globals()[cases]), {}]


class Walks:
    """The longest walk of the collector, in milliseconds of processor time."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.count = 0
        self._began = 0

    def __call__(self, phase: str, _details: dict[str, Any]) -> None:
        if phase == "start":
            self._began = time.thread_time_ns()
        else:
            self.count += 1
            self.longest_ms = max(self.longest_ms, (time.thread_time_ns() - self._began) / 1e6)


@pytest.mark.timed
@pytest.mark.slow
async def test_no_collection_in_a_large_broker_holds_the_thread(tmp_path: Path) -> None:
    """10,000 rules, 10,000 topics and 1,000 connections, of which 9,000 topics are made meanwhile."""
    walks = Walks()
    async with crowded(tmp_path, Size(connections=1_000)) as crowd:
        client = await crowd.broker.connect()
        gc.callbacks.append(walks)
        try:
            for part in range(3):
                topics = [CreatableTopic(f"more-{part}-{at}", 1, 1) for at in range(3_000)]
                answer = await client.ask(CreateTopicsRequest(topics, 60_000), 5)
                assert not any(each.error_code for each in answer.topics)
            for _ in range(20):
                for listing in ("client-quotas", "topics", "client-quotas:export", "connections"):
                    assert await crowd.ask("GET", f"/api/v1/{listing}") == 200
            await trio.sleep(interpreter.CHECKS * interpreter.CHECK_SECONDS + 1)
        finally:
            gc.callbacks.remove(walks)
    assert walks.count > 100
    assert walks.longest_ms < LONGEST_MS * slowness(), f"{walks.longest_ms:.1f} ms"
