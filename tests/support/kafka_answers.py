"""Compares the answers of Weir and Apache Kafka to the same requests, in every version that both serve.

Not compared: the words of errors, and what belongs to one broker (ids, addresses, sizes, throttle times).
Lists are compared without their order, which in Kafka is often that of a hash table.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import trio

import broker.protocol.messages
from tests.support.wire import WireClient, connect

PATIENCE_S: Final = 20
LOOK_EVERY_S: Final = 0.05

OF_ONE_BROKER: Final = frozenset(
    {
        "acknowledge_error_message",
        "batch_index_error_message",
        "client_instance_id",
        "cluster_id",
        "documentation",
        "error_message",
        "high_watermark",
        "last_caught_up_timestamp",
        "last_fetch_timestamp",
        "leader",
        "log_dir",
        "log_end_offset",
        "member_id",
        "nodes",
        "partition_size",
        "port",
        "producer_id",
        "session_id",
        "subscription_id",
        "throttle_time_ms",
        "topic_id",
        "total_bytes",
        "usable_bytes",
    }
)
"""Fields that are not compared."""

IN_ANY_ORDER: Final = frozenset({"status_detail"})
"""Texts that are compared as sets of words: they name topics in the order of a hash table."""

Body = Mapping[str, Any]
"""The fields of a request by name; a value may be a function of the `Side`."""


def requests() -> dict[str, Any]:
    """Return the class of each request by the name of its API."""
    found = {}
    package = broker.protocol.messages
    for each in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{each.name}")
        for name, class_ in vars(module).items():
            if name.endswith("Request") and getattr(class_, "__module__", "") == module.__name__:
                found[name.removesuffix("Request")] = class_
    return found


REQUESTS: Final = requests()


@dataclass(frozen=True)
class Case:
    """One request. `differs` says why the answers differ; then they must, in some version.

    `versions` limits those that are tried; `keeps` are fields of the answer that later cases use, and
    `names` those of an answer without error that they use by other names, unless they are null. With
    `until_same` the request is repeated until the answers agree: Kafka applies some changes after its answer.
    With `until` each broker is asked until its answer has these fields. An `unread` request waits for others:
    it has a connection of its own, and its answer is not compared.
    """

    api: str
    body: Body
    versions: Sequence[int] | None = None
    differs: str = ""
    keeps: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    until_same: bool = False
    until: Body = field(default_factory=dict)
    unread: bool = False

    def __str__(self) -> str:
        return f"{self.api} {self.body}"[:200]


@dataclass
class Side:
    """One of the two brokers. A connection that it closes is opened again for the next request."""

    port: int
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    _client: WireClient | None = None

    async def ask(self, api: str, body: Body, version: int) -> Any:
        """Return the answer as JSON would have it, or `{"closed": true}`; `{"silent": true}` without one."""
        if self._client is None:
            self._client = await connect(self.port)
        request = build(REQUESTS[api], resolved(body, self))
        try:
            with trio.fail_after(PATIENCE_S):
                return as_json(await self._client.ask(request, version))
        except (EOFError, trio.BrokenResourceError):
            self._client = None
            return {"closed": True}
        except trio.TooSlowError:
            self._client = None
            return {"silent": True}

    async def ask_until(self, api: str, body: Body, version: int, wanted: Body) -> Any:
        """Ask again until the answer has these fields; return it, and after 20 s whatever it is."""
        deadline = trio.current_time() + PATIENCE_S
        while True:
            answer = await self.ask(api, body, version)
            if wanted.items() <= answer.items() or trio.current_time() > deadline:
                return answer
            await trio.sleep(LOOK_EVERY_S)

    async def send(self, api: str, body: Body, version: int) -> None:
        """Send a request whose answer nobody reads."""
        client = await connect(self.port)
        await client.send(build(REQUESTS[api], resolved(body, self)), version)

    async def learn_topic_ids(self) -> None:
        answer = await self.ask("Metadata", {"topics": None}, 12)
        self.topic_ids = {each["name"]: bytes.fromhex(each["topic_id"]) for each in answer["topics"]}


def topic_id(name: str) -> Callable[[Side], bytes]:
    """The id of the topic at the broker that is asked."""
    return lambda side: side.topic_ids.get(name, b"\1" * 16)


def kept(name: str) -> Callable[[Side], Any]:
    """What an earlier case kept of the answer of the broker that is asked."""
    return lambda side: side.kept[name]


def resolved(value: Any, side: Side) -> Any:
    if isinstance(value, Mapping):
        return {key: resolved(each, side) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, side) for each in value]
    return value(side) if callable(value) else value


def build(class_: Any, body: Any) -> Any:
    """Return the struct with these fields; the others have their defaults."""
    if not isinstance(body, Mapping):
        return body
    types = {each.name: each.type for each in class_.FIELDS}
    values = {}
    for name, value in body.items():
        of = types[name]
        if isinstance(of, type) and isinstance(value, list):
            value = [build(of, each) for each in value]
        elif isinstance(of, type):
            value = build(of, value)
        values[name] = value
    return class_(**values)


def as_json(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if hasattr(value, "FIELDS"):
        return {each.name: as_json(getattr(value, each.name)) for each in value.FIELDS}
    return value


def comparable(value: Any) -> Any:
    """Return the part of an answer that two brokers have in common, with sorted lists and null as empty."""
    if isinstance(value, dict):
        return {
            key: sorted(re.findall(r"\w[\w.-]*", each)) if key in IN_ANY_ORDER else comparable(each)
            for key, each in value.items()
            if key not in OF_ONE_BROKER
        }
    if isinstance(value, list):
        return sorted((comparable(each) for each in value), key=json.dumps) or ""
    return "" if value is None else value


def differences(kafka: Any, weir: Any, path: str = "") -> Iterator[str]:
    """Describe where two comparable answers differ."""
    if isinstance(kafka, dict) and isinstance(weir, dict):
        for key in kafka:
            yield from differences(kafka[key], weir.get(key), f"{path}.{key}")
    elif isinstance(kafka, list) and isinstance(weir, list) and len(kafka) == len(weir):
        for at, (one, other) in enumerate(zip(kafka, weir, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif kafka != weir:
        yield f"{path}: Kafka has {json.dumps(kafka)[:200]}, Weir {json.dumps(weir)[:200]}"


async def compare(case: Case, kafka: Side, weir: Side) -> list[str]:
    """Return the differences in all versions, each once with the first version that has it."""
    low, high = REQUESTS[case.api].VERSIONS
    found: dict[str, int] = {}
    for version in case.versions if case.versions is not None else range(low, high + 1):
        if case.unread:
            for side in (kafka, weir):
                await side.send(case.api, case.body, version)
            continue
        answers = [await side.ask_until(case.api, case.body, version, case.until) for side in (kafka, weir)]
        for side, answer in zip((kafka, weir), answers, strict=True):
            side.kept.update({name: answer[name] for name in case.keeps if name in answer})
            if not answer.get("error_code"):
                told = {other: answer.get(name) for name, other in case.names.items()}
                side.kept.update({other: value for other, value in told.items() if value is not None})
        different = list(differences(*(comparable(answer) for answer in answers)))
        deadline = trio.current_time() + PATIENCE_S
        while different and case.until_same and trio.current_time() < deadline:
            await trio.sleep(LOOK_EVERY_S)
            answers = [await side.ask(case.api, case.body, version) for side in (kafka, weir)]
            different = list(differences(*(comparable(answer) for answer in answers)))
        for each in different:
            found.setdefault(each, version)
    return [f"version {version}: {each}" for each, version in found.items()]
