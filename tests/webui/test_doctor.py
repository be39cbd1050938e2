"""Symptoms evaluated against live metrics: each figure at its threshold, and the setting beside it."""

from typing import Any

import pytest
from msgspec.structs import replace

from broker.controller.rows.broker import PhaseRow, QueueRow
from broker.controller.rows.connections import ConnectionLimitRow, SelectorRow
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.rows import NOW_MS, broker_metrics, connection, idle_flow, use
from webui.doctor.checks import EVERY_MS, SPAN_MS, Check, Level, RecentTotals, above, idle_level, use_level
from webui.doctor.symptoms import examine, totals_of
from webui.rest.doctor import DOCTOR


async def check(broker: FakeBroker, symptom: str, title: str, recent: RecentTotals | None = None) -> Check:
    found = {each.key: each for each in (await examine(broker.views, recent or RecentTotals(), NOW_MS))}
    (wanted,) = [each for each in found[symptom].checks if each.title == title]
    return wanted


@pytest.mark.parametrize(
    ("idle", "level"), [(1.0, "good"), (0.5, "good"), (0.499, "watch"), (0.2, "watch"), (0.199, "urgent")]
)
async def test_idle_threads(idle: float, level: str) -> None:
    assert idle_level(idle) == level
    for busy, symptom, title in (
        ("thread_idle", "queue", "Thread idle"),
        ("processor_idle", "io", "Network threads idle"),
        ("handler_idle", "handlers", "Request handlers idle"),
    ):
        broker = FakeBroker(now=broker_metrics(**{busy: idle}))
        levels = {
            each.title: each.level
            for found in await examine(broker.views, RecentTotals(), NOW_MS)
            for each in found.checks
            if each.title.endswith(" idle")
        }
        assert levels == {
            "Thread idle": "good",
            "Network threads idle": "good",
            "Request handlers idle": "good",
        } | {title: level}
        assert (await check(broker, symptom, title)).value == idle


async def test_a_busy_thread_is_reported_with_what_it_does() -> None:
    metrics = broker_metrics(thread_idle=0.05, processor_idle=0.7, handler_idle=0.35)
    found = await check(FakeBroker(now=metrics), "queue", "Thread idle")
    assert "65% with handling requests, 30% with reading and writing" in found.says


@pytest.mark.parametrize(
    ("used", "level"),
    [(None, "good"), (0.699, "good"), (0.7, "watch"), (0.949, "watch"), (0.95, "urgent"), (2.0, "urgent")],
)
def test_levels_follow_the_used_share(used: float | None, level: str) -> None:
    assert use_level(used) == level


def test_a_missing_value_is_no_problem() -> None:
    assert above(None, 1, 2) is above(float("nan"), 1, 2) is Level.GOOD
    assert [above(value, 1, 2) for value in (0.99, 1, 1.99, 2)] == ["good", "watch", "watch", "urgent"]


async def test_an_untouched_broker_is_well() -> None:
    assert {each.level for each in (await examine(FakeBroker().views, RecentTotals(), NOW_MS))} == {
        Level.GOOD
    }


@pytest.mark.parametrize(("offline", "level"), [(0, "good"), (1, "urgent"), (1_000, "urgent")])
async def test_a_partition_that_is_offline_is_urgent(offline: int, level: str) -> None:
    broker = FakeBroker(now=broker_metrics(offline_partitions=offline))
    found = await check(broker, "storage", "Partitions offline")
    assert (found.level, found.value) == (level, offline)


async def test_a_broker_that_listens_nowhere_cannot_be_reached() -> None:
    assert (await check(FakeBroker(endpoints=()), "connect", "Bound listeners")).level is Level.URGENT


async def test_places_that_are_nearly_taken_are_reported_with_the_setting() -> None:
    broker = FakeBroker(limit_rows=[ConnectionLimitRow("", 96, 100, 1.0, None, ())])
    taken = await check(broker, "connect", "Open connections")
    assert (taken.level, taken.setting, taken.more) == (Level.URGENT, "max.connections", True)


async def test_refusals_of_long_ago_are_over() -> None:
    broker, recent = FakeBroker(), RecentTotals()
    broker.address_uses = [use("10.0.0.7", throttled=5)]
    broker.limit_rows = [ConnectionLimitRow("", 1, None, 1.0, None, (("max.connections.per.ip", 7),))]
    recent.add(await totals_of(broker.views), NOW_MS - SPAN_MS)
    title = "Rejected: too many connections per address"
    assert (await check(broker, "connect", title, recent)).value == 0
    broker.limit_rows = [ConnectionLimitRow("", 1, None, 1.0, None, (("max.connections.per.ip", 9),))]
    refused = await check(broker, "connect", title, recent)
    assert (refused.value, refused.level) == (2, Level.WATCH)
    assert (
        await check(broker, "connect", "Throttled: connection rate of an address exceeded", recent)
    ).value == 0


async def test_either_servers_places_are_looked_at_and_its_refusals_counted() -> None:
    broker, recent = FakeBroker(), RecentTotals()
    rejected = (("max.connections.per.ip", 3),)
    broker.limit_rows = [
        ConnectionLimitRow("", 1, 100, 1.0, None, rejected),
        ConnectionLimitRow("PLAINTEXT", 1, 100, 1.0, None, rejected),
        ConnectionLimitRow("", 96, 100, 1.0, None, rejected, "controller"),
        ConnectionLimitRow("CONTROLLER", 96, 100, 1.0, None, rejected, "controller"),
    ]
    broker.address_uses = [use("10.0.0.7", throttled=5)]
    broker.controller_uses = [use("10.0.0.7", throttled=4), use("10.0.0.8", throttled=1)]
    assert await totals_of(broker.views) == {
        "max.connections.per.ip": 6,
        "max.connections": 0,
        "connection_creation_rate": 0,
        "throttled": 10,
        "oversized": 0,
        "blocked callbacks": 0,
    }
    assert (await check(broker, "connect", "Open connections", recent)).level is Level.GOOD
    controller = await check(broker, "connect", "Open connections of the controller", recent)
    assert (controller.value, controller.level) == (96, Level.URGENT)


async def test_the_controllers_memory_is_looked_at_where_there_is_any() -> None:
    title = "Request memory of the controller"
    figure = broker_metrics(controller_memory_pool_used=96, controller_memory_pool_size=100)
    assert (await check(FakeBroker(now=figure), "queue", title)).level is Level.URGENT
    overview = FakeBroker(now=broker_metrics()).overview()
    symptoms = await examine(FakeBroker(now=overview.metrics).views, RecentTotals(), NOW_MS)
    assert title not in {each.title for symptom in symptoms for each in symptom.checks}


def test_totals_are_looked_at_every_ten_seconds_for_five_minutes() -> None:
    recent = RecentTotals()
    assert recent.growth({"a": 9}, 0) == {"a": 0}
    for at_ms in range(0, 2 * SPAN_MS, EVERY_MS):
        assert recent.is_due(at_ms)
        recent.add({"a": at_ms}, at_ms)
        assert not recent.is_due(at_ms + EVERY_MS - 1)
    now_ms = 2 * SPAN_MS
    assert recent.growth({"a": now_ms, "b": 4}, now_ms) == {"a": SPAN_MS, "b": 4}


async def test_a_queue_that_fills_and_the_time_in_it() -> None:
    queue = QueueRow("requests", 480, 500, 490)
    phases = (PhaseRow("Produce", "RequestQueueTimeMs", 9, 1.0, 51.0),)
    broker = FakeBroker(now=broker_metrics(queues=(queue,), phases=phases))
    assert (await check(broker, "queue", "Requests in the queue")).level is Level.URGENT
    waiting = await check(broker, "queue", "Queue time (p99)")
    assert (waiting.level, waiting.setting) == (Level.WATCH, "num.io.threads")
    assert waiting.says.startswith("Produce")


async def test_depleted_memory_and_the_connections_that_wait_for_it() -> None:
    broker = FakeBroker(now=broker_metrics(memory_pool_used=96, memory_pool_size=100))
    broker.connection_rows = [connection("big", mute_state="muted_for_memory")]
    assert (await check(broker, "queue", "Request memory")).level is Level.URGENT
    assert (await check(broker, "queue", "Connections waiting for memory")).level is Level.WATCH


async def test_the_slowest_kind_of_request_is_named() -> None:
    nan = float("nan")
    rows = (("Fetch", 40.0), ("CreateTopics", 600.0), ("Metadata", nan))
    phases = tuple(PhaseRow(api, "LocalTimeMs", 1, 1.0, p99) for api, p99 in rows)
    slow = await check(FakeBroker(now=broker_metrics(phases=phases)), "handlers", "Handling time (p99)")
    assert (slow.value, slow.level) == (600.0, Level.URGENT) and slow.says.startswith("CreateTopics")


async def test_fetches_may_wait_and_produces_may_not() -> None:
    fetches = (PhaseRow("Fetch", "RemoteTimeMs", 1, 1.0, 500.0),)
    broker = FakeBroker(now=broker_metrics(phases=fetches))
    assert (await check(broker, "handlers", "Delayed produce requests (p99)")).value is None
    broker.now = replace(broker.now, phases=(replace(fetches[0], api="Produce"),))
    assert (await check(broker, "handlers", "Delayed produce requests (p99)")).level is Level.URGENT


async def test_the_diagnosis_comes_with_the_setting_and_its_command(
    http: Browserless, broker: FakeBroker
) -> None:
    broker.configs["max.connections"] = "100"
    broker.limit_rows = [ConnectionLimitRow("", 96, 100, 1.0, None, ())]
    answer: Any = DOCTOR.check(await (await http.get("/api/v1/doctor", token="viewer-token")).get_json())
    assert answer["level"] == "urgent" and len(answer["symptoms"]) == 5
    (taken,) = [each for each in answer["symptoms"][0]["checks"] if each["title"] == "Open connections"]
    assert taken["setting"] == {
        "name": "max.connections",
        "value": "100",
        "dynamic": True,
        "command": "kafka-configs.sh --bootstrap-server 127.0.0.1:9092 --alter --entity-type brokers "
        "--entity-name 1 --add-config max.connections=200",
    }


@pytest.mark.parametrize(
    ("mutes", "level"), [(0.0, "good"), (49.9, "good"), (50.0, "watch"), (499.0, "watch"), (500.0, "urgent")]
)
async def test_connections_that_are_muted_again_and_again(mutes: float, level: str) -> None:
    broker = FakeBroker(flow_row=idle_flow(mutes=mutes, unmutes=mutes))
    assert (await check(broker, "io", "Connections muted")).level == level


@pytest.mark.parametrize(
    ("mutes", "unmutes", "level"), [(0.0, 0.0, "good"), (1.0, 0.1, "good"), (1.0, 0.0, "watch")]
)
async def test_connections_that_are_muted_and_never_read_again(
    mutes: float, unmutes: float, level: str
) -> None:
    broker = FakeBroker(flow_row=idle_flow(mutes=mutes, unmutes=unmutes))
    assert (await check(broker, "io", "Connections unmuted")).level == level


@pytest.mark.parametrize(
    ("deepest", "limit", "level", "setting"),
    [
        (1, 1, "good", None),
        (44, 64, "good", "pipeline.high.watermark"),
        (45, 64, "watch", "pipeline.high.watermark"),
        (61, 64, "urgent", "pipeline.high.watermark"),
    ],
)
async def test_requests_in_hand_of_one_connection(
    deepest: int, limit: int, level: str, setting: str | None
) -> None:
    broker = FakeBroker(flow_row=idle_flow(deepest=deepest, deepest_limit=limit, in_flight=70))
    found = await check(broker, "io", "Most requests in flight on one connection")
    assert (found.value, found.of, found.level, found.setting) == (deepest, limit, level, setting)
    assert found.says.startswith("70 on all connections")


@pytest.mark.parametrize(
    ("connections", "idle", "level"), [(999, 999, "good"), (1_000, 899, "good"), (1_000, 900, "watch")]
)
async def test_idle_connections_of_the_network_thread_that_has_most(
    connections: int, idle: int, level: str
) -> None:
    rows = (SelectorRow("a", 5_000, idle - 1), SelectorRow("b", connections, idle))
    found = await check(
        FakeBroker(flow_row=idle_flow(selectors=rows)), "io", "Idle connections of one network thread"
    )
    assert (found.value, found.of, found.level) == (idle, connections, level)
    assert "b" in found.says.split()


async def test_a_broker_without_network_threads_has_no_idle_connections() -> None:
    symptoms = await examine(FakeBroker(flow_row=idle_flow(selectors=())).views, RecentTotals(), NOW_MS)
    assert "Idle connections of one network thread" not in [
        each.title for symptom in symptoms for each in symptom.checks
    ]


@pytest.mark.parametrize(("left", "level"), [(1_000, "good"), (301, "good"), (300, "watch"), (50, "urgent")])
async def test_available_request_size(left: int, level: str) -> None:
    broker = FakeBroker(flow_row=idle_flow(available_request_size=left, request_size_limit=1_000))
    found = await check(broker, "queue", "Free bytes in the request queue")
    assert (found.value, found.of, found.level) == (left, 1_000, level)
    assert (found.setting, found.more) == ("queued.max.requests.size.bytes", True)


@pytest.mark.parametrize(("count", "level"), [(0, "good"), (1, "watch"), (999, "watch"), (1_000, "urgent")])
async def test_oversized_requests_of_five_minutes(count: int, level: str) -> None:
    broker, recent = FakeBroker(flow_row=idle_flow(oversized=7, blocked_callbacks=7)), RecentTotals()
    recent.add(await totals_of(broker.views), NOW_MS - SPAN_MS)
    broker.flow_row = idle_flow(oversized=7 + count, blocked_callbacks=7 + count)
    oversized = await check(broker, "queue", "Oversized requests", recent)
    assert (oversized.value, oversized.level, oversized.setting) == (count, level, "socket.request.max.bytes")
    blocked = await check(broker, "handlers", "Blocked callbacks", recent)
    assert (blocked.value, blocked.level) == (count, level)


@pytest.mark.parametrize(
    ("callbacks", "level"), [(0, "good"), (349, "good"), (350, "watch"), (475, "urgent")]
)
async def test_callbacks_that_wait(callbacks: int, level: str) -> None:
    found = await check(FakeBroker(flow_row=idle_flow(callbacks=callbacks)), "handlers", "Queued callbacks")
    assert (found.value, found.of, found.level) == (callbacks, 500, level)


@pytest.mark.parametrize(("missing", "level"), [(0, "good"), (1, "urgent")])
async def test_records_that_are_missing_are_urgent(missing: int, level: str) -> None:
    broker = FakeBroker(now=broker_metrics(missing_offsets=missing))
    found = await check(broker, "storage", "Records missing")
    assert (found.level, found.value) == (level, missing)
