"""What others wait while a client sends a request whose cost is not its arrays: the longest strings and bytes
of APIs without arrays, the most expensive telemetry, settings and regular expressions, and as many
credentials as one request may change.

`test_hostile_apis` says what is measured and how; the rows of its table are written here too.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import trio
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from broker.api import registry
from broker.api.registry import Api
from broker.api.requests.change_limits import MAX_ELEMENTS
from broker.controller.commands import OpType, ResourceType
from broker.protocol import codec
from broker.protocol.api_key import NAMES
from broker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from broker.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from broker.protocol.schema import Struct
from broker.protocol.varint import MAX_TAGS, uvarint
from broker.records.compression import Codec, compress
from tests.endtoend.test_hostile_apis import (
    GOAL_MS,
    SHORT_TRIES,
    TRIES,
    Broker,
    attack,
    best_of,
    frame_of,
    is_short,
    write_row,
)
from tests.support.broker_process import BrokerProcess
from tests.support.hostile import framed
from tests.support.measured_broker import LongestPass
from tests.support.wire import connect

pytestmark = pytest.mark.endtoend

MAX_STRING_BYTES: Final = "x" * 32_766
MEGABYTE: Final = 1 << 20
LARGEST: Final = 8 * MEGABYTE
"""Bytes of a field of bytes, and behind the end of a request."""

SALTED: Final = b"p" * 1_024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("hostile")
    longest = LongestPass(directory / "longest")
    measured = (sys.executable, "-m", "tests.support.measured_broker", str(directory / "longest"))
    settings = ("events.topics=", "console.listener=127.0.0.1:0")
    with BrokerProcess(directory / "log", *settings, prefix=measured) as process:
        made = Broker(process, longest)
        trio.run(subscribe, made.port)
        yield made


async def subscribe(port: int) -> None:
    """Has clients push their metrics."""
    client = await connect(port)
    async with client.stream:
        ops = [AlterableConfig("metrics", OpType.SET, "*")]
        resource = AlterConfigsResource(ResourceType.CLIENT_METRICS, "all", ops)
        altered = await client.ask(IncrementalAlterConfigsRequest([resource]), 1)
        assert altered.responses[0].error_code == 0


# APIs without arrays


def has_arrays(kind: type[Struct]) -> bool:
    return any(
        field.array or (not isinstance(field.type, str) and has_arrays(field.type)) for field in kind.FIELDS
    )


WITHOUT_ARRAYS: Final = sorted(
    (api for api in registry.load() if not has_arrays(codec.request_class(api.key))), key=lambda api: api.key
)


def longest(kind: type[Struct], text: str, data: bytes) -> Any:
    """A message with `text` in every string and `data` in all bytes."""
    made = kind()
    for field in kind.FIELDS:
        if field.type in ("string", "bytes"):
            setattr(made, field.name, text if field.type == "string" else data)
    return made


def with_tags(frame: bytes, count: int) -> bytes:
    """Unknown tagged fields at the end of a request of a flexible version."""
    return framed(frame[4:-1] + uvarint(count) + b"\x64\0" * count)


def bodies(api: Api) -> Iterator[tuple[str, bytes]]:
    """The longest strings, of ASCII and of what takes three bytes each; bytes that are large; a tail."""
    kind, version = codec.request_class(api.key), api.max_version
    wide = "\N{EURO SIGN}" * (len(MAX_STRING_BYTES) // 3)
    yield "the longest strings", frame_of(longest(kind, MAX_STRING_BYTES, b""), version)
    yield "the longest strings, of 3 bytes a character", frame_of(longest(kind, wide, b""), version)
    if any(field.type == "bytes" for field in kind.FIELDS):
        yield "8 MB in its bytes", frame_of(longest(kind, "1", bytes(LARGEST)), version)
    plain = frame_of(longest(kind, "1", b""), version)
    yield "8 MB behind its end", framed(plain[4:] + bytes(LARGEST))
    if kind.FLEXIBLE is not None and version >= kind.FLEXIBLE:
        for count in (MAX_TAGS, MAX_TAGS + 1):
            yield f"{count:,} unknown tagged fields", with_tags(plain, count)


@pytest.mark.timed
@pytest.mark.parametrize("api", WITHOUT_ARRAYS, ids=lambda api: api.key.name)
async def test_no_api_without_arrays_holds_the_thread(broker: Broker, api: Api) -> None:
    for body, frame in bodies(api):
        seen = await best_of(SHORT_TRIES, broker, frame)
        write_row(NAMES[api.key], body, len(frame), seen)
        assert is_short(seen), (body, seen)


# Telemetry

Fill = Callable[[MetricsData], None]


def metrics_of(data: MetricsData, count: int) -> Iterator[Metric]:
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    for at in range(count):
        metric = metrics.add()
        metric.name = f"m{at}"
        yield metric


def many_metrics(data: MetricsData) -> None:
    for metric in metrics_of(data, 60_000):
        metric.gauge.data_points.add().as_double = 1.0


def many_points(data: MetricsData) -> None:
    for metric in metrics_of(data, 1):
        for at in range(90_000):
            metric.sum.data_points.add().as_int = at


def many_attributes(data: MetricsData) -> None:
    """As many as are read of each of as many points as are read, each of them new."""
    for metric in metrics_of(data, 1):
        for at in range(5_000):
            point = metric.sum.data_points.add()
            for key in range(32):
                point.attributes.add(key=f"{key}", value=AnyValue(int_value=at))


def attributes_of_one_point(data: MetricsData) -> None:
    for metric in metrics_of(data, 1):
        point = metric.gauge.data_points.add()
        for at in range(100_000):
            point.attributes.add(key=f"k{at}", value=AnyValue(bool_value=True))


def nested(data: MetricsData) -> None:
    """Lists in lists, as deep as the decoder goes, on every point."""
    value = AnyValue(int_value=1)
    for _ in range(20):
        outer = AnyValue()
        outer.kvlist_value.values.append(KeyValue(key="k", value=value))
        value = outer
    for metric in metrics_of(data, 1):
        for _ in range(2_000):
            metric.gauge.data_points.add().attributes.add(key="a", value=value)


def histograms(data: MetricsData) -> None:
    for metric in metrics_of(data, 2_000):
        point = metric.histogram.data_points.add()
        point.bucket_counts.extend([1] * 100)


VALID: Final[dict[str, Fill]] = {
    "60,000 metrics": many_metrics,
    "90,000 points": many_points,
    "5,000 points of 32 new attributes": many_attributes,
    "100,000 attributes of a point": attributes_of_one_point,
    "2,000 attributes nested 20 deep": nested,
    "2,000 histograms of 100 buckets": histograms,
}

INVALID: Final = {
    "a megabyte of zeroes": bytes(MEGABYTE),
    "a megabyte of the beginnings of messages": b"\x0a" * MEGABYTE,
    "empty resources, and no end": b"\x0a\0" * (MEGABYTE - 1) + b"\x0a",
    "2 MB, nested 1,000 deep": b"\x0a\x80\x80\x80\x01" * 1_000 + bytes(2 * MEGABYTE - 8_000),
}


def plain_of(body: str) -> bytes:
    if body in INVALID:
        return INVALID[body]
    data = MetricsData()
    VALID[body](data)
    return data.SerializeToString()


async def push(broker: Broker, kind: Codec, payload: bytes) -> bytes:
    """The frame of a push, by an instance that has just asked for its subscription."""
    client = await connect(broker.port)
    async with client.stream:
        subscription = await client.ask(GetTelemetrySubscriptionsRequest(bytes(16)), 0)
        assert subscription.error_code == 0
    return frame_of(
        PushTelemetryRequest(
            subscription.client_instance_id, subscription.subscription_id, False, kind, payload
        ),
        0,
    )


def pushes() -> Iterator[Any]:
    """Each body plain and with one codec; the other codecs of the same bodies are slow."""
    codecs = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
    for number, body in enumerate([*VALID, *INVALID]):
        yield pytest.param(body, Codec.NONE, id=f"{body}-none")
        for at, kind in enumerate(codecs):
            marks = () if at == number % 4 else pytest.mark.slow
            yield pytest.param(body, kind, id=f"{body}-{kind.name.lower()}", marks=marks)


@pytest.mark.timed
@pytest.mark.parametrize(("body", "kind"), list(pushes()))
async def test_no_push_of_telemetry_holds_the_thread(broker: Broker, body: str, kind: Codec) -> None:
    payload = bytes(compress(kind, plain_of(body)))
    if kind is Codec.NONE and len(payload) > MEGABYTE and body in VALID:
        payload = payload[:MEGABYTE]  # damaged by that
    frame = await push(broker, kind, payload)
    seen = await attack(broker, frame)
    for _ in range(SHORT_TRIES - 1):
        if seen.passed < GOAL_MS:
            break
        seen = min(seen, await attack(broker, await push(broker, kind, payload)))
    write_row("PushTelemetry", f"{body}, {kind.name.lower()}", len(frame), seen)
    assert is_short(seen), seen


# Settings


def ops_of(*ops: AlterableConfig) -> bytes:
    """The frame of a change of the broker's settings that is only validated."""
    resource = AlterConfigsResource(ResourceType.BROKER, "1", list(ops))
    return frame_of(IncrementalAlterConfigsRequest([resource], validate_only=True), 1)


def put(key: str, value: str) -> AlterableConfig:
    return AlterableConfig(key, OpType.SET, value)


USERS: Final = "max.connection.creation.rate.per.user.overrides"
LISTENERS: Final = ",".join(f"PLAINTEXT{at}://h:{at + 1}" for at in range(1_500))
CIPHERS: Final = ",".join(f"c{at}" for at in range(2_000))
SETTINGS: Final = {
    "a user override of 32,000 tabs": ops_of(put(USERS, "a" + "\t" * 32_000 + ":x")),
    "2,000 user overrides": ops_of(put(USERS, ",".join(f"u{at}:1" for at in range(2_000)))),
    "8,000 user overrides": ops_of(put(USERS, ",".join(f"{at}:1" for at in range(5_000)))),
    "1,500 listeners": ops_of(put("listeners", LISTENERS)),
    "60 listeners": ops_of(put("listeners", ",".join(LISTENERS.split(",")[:60]))),
    "200 lists of 2,000 items": ops_of(
        *(put(f"listener.name.a{at}.ssl.cipher.suites", CIPHERS) for at in range(200))
    ),
    "2,000 items appended to 2,000": ops_of(
        AlterableConfig("broker.quota.white.list.user", OpType.APPEND, CIPHERS),
        AlterableConfig("broker.quota.white.list.client.id", OpType.APPEND, CIPHERS),
    ),
    "1,000 unknown settings": ops_of(*(put(f"own.{at}", "x" * 100) for at in range(1_000))),
    "a number of 32,000 digits": ops_of(put("broker.quota.request.rate", "1" * 32_000)),
    "a pattern of 2,600 Unicode classes": frame_of(
        IncrementalAlterConfigsRequest(
            [
                AlterConfigsResource(
                    ResourceType.CLIENT_METRICS, "hostile", [put("match", "client_id=" + "\\pL" * 2_600)]
                )
            ]
        ),
        1,
    ),
}


@pytest.mark.parametrize("what", SETTINGS)
async def test_no_value_of_a_setting_holds_the_thread(broker: Broker, what: str) -> None:
    seen = await best_of(SHORT_TRIES, broker, SETTINGS[what])
    write_row("IncrementalAlterConfigs", what, len(SETTINGS[what]), seen)
    assert is_short(seen), seen


# Regular expressions


@pytest.mark.parametrize("unit", ["\\pL", "[^\\pL\\pN]", "(?:[ab]?a?b?)", "a{1000}", "(a*|b*)"])
async def test_no_regular_expression_holds_the_thread(broker: Broker, unit: str) -> None:
    """As long as the requests allow, and as long as is compiled."""
    for count in (4_000 // len(unit), 40, 7):
        regex = unit * count
        beat = ConsumerGroupHeartbeatRequest(
            "hostile", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_regex=regex, topic_partitions=[]
        )
        for name, frame in (
            ("ConsumerGroupHeartbeat", frame_of(beat, 1)),
            ("ListTransactions", frame_of(ListTransactionsRequest(transactional_id_pattern=regex), 2)),
        ):
            seen = await best_of(SHORT_TRIES, broker, frame)
            write_row(name, f"{count:,} times {unit}", len(frame), seen)
            assert is_short(seen), (count, seen)


# Credentials


@pytest.mark.timed
@pytest.mark.parametrize("count", [MAX_ELEMENTS, MAX_ELEMENTS + 1])
async def test_no_bulk_of_credentials_holds_the_thread(broker: Broker, count: int) -> None:
    """As many as one request may change, with the longest salts and passwords; and one more."""
    upsertions = [
        ScramCredentialUpsertion(f"user-{at}", 1 + at % 2, 4096, SALTED, SALTED) for at in range(count)
    ]
    frame = frame_of(AlterUserScramCredentialsRequest([], upsertions), 0)
    seen = await best_of(TRIES, broker, frame)
    write_row("AlterUserScramCredentials", f"{count:,} upsertions", len(frame), seen)
    assert is_short(seen), seen
