"""An operator limits running producers in the browser, sees them held, and lets them go."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.endtoend.operator import Operator, SeenThrottle, chromium
from tests.support.broker_process import PATIENCE, BrokerProcess, within
from tests.support.quota_interfaces import set_by_rest
from tests.support.real_producers import BATCH_BYTES, Aiokafka, KafkaPython, Librdkafka, RealProducer

pytestmark = [pytest.mark.endtoend, pytest.mark.browser]

LIMIT: Final = 25_000
"""Eight seconds for each request of the producers, which are 200 kB."""

LONGEST_WAIT_S: Final = 10
LOOKED_AT_S: Final = 2.5
"""Shorter than the throttle of a request."""

HELD: Final = LIMIT + 2 * BATCH_BYTES / LOOKED_AT_S
"""Bytes a second of a producer that is throttled: the request in hand may get through while it is looked at,
and the first one after that. A producer that is not held sends many.
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("weir")) as running:
        yield running


@pytest.fixture
def operator(browser: Any, broker: BrokerProcess) -> Iterator[Operator]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    operator = Operator(context, broker)
    yield operator
    context.close()
    for rule in broker.ask("GET", "/api/v1/client-quotas")["items"]:
        set_by_rest(broker, rule["entity"], None)
    assert operator.complaints() == []


def started(broker: BrokerProcess, kind: type[RealProducer], name: str, user: str | None) -> RealProducer:
    return kind(broker.plain if user is None else broker.sasl, name, user)


STORIES: Final = [
    pytest.param(Librdkafka, None, {"client-id": "checkout"}, "client id checkout", id="client-id"),
    pytest.param(Aiokafka, "alice", {"user": "alice"}, "user alice", id="user"),
    pytest.param(
        KafkaPython,
        "bob",
        {"user": "bob", "client-id": "reports"},
        "user bob, client id reports",
        id="user-and-client-id",
    ),
    # The same pages for other rules.
    pytest.param(
        Librdkafka,
        None,
        {"client-id": None},
        "default client id",
        id="default-client-id",
        marks=pytest.mark.slow,
    ),
    # Not alice: what she sent under her own limit would still count, as it should.
    pytest.param(
        Librdkafka, "bob", {"user": None}, "default user", id="default-user", marks=pytest.mark.slow
    ),
]


@pytest.mark.parametrize(("kind", "user", "entity", "words"), STORIES)
def test_a_limit_set_in_the_browser_holds_a_running_producer_until_it_is_removed(
    broker: BrokerProcess,
    operator: Operator,
    kind: type[RealProducer],
    user: str | None,
    entity: Mapping[str, str | None],
    words: str,
) -> None:
    client_id = entity.get("client-id") or f"somebody-{kind.__name__.lower()}"
    with started(broker, kind, client_id, user) as producer:
        within(10, lambda: producer.delivered, "the first record")
        assert producer.rate(0.5) > 10 * LIMIT
        operator.sees_nobody_throttled()

        with _watching(broker, client_id) as held_at:
            clicked = operator.adds_quota(entity, "25 kB/s")
            # Who runs already is throttled for what each request is over the limit, here for eight seconds.
            row = within(3, lambda: _long_throttled(operator, client_id), f"{client_id} is seen throttled")
        assert held_at[0] - clicked < 1.0 * PATIENCE
        assert row.bound == LIMIT < row.observed
        assert row.rule == " ".join(
            f"{key.replace('-', ' ')} {name or 'default'}" for key, name in entity.items()
        )

        _counts_down(operator, client_id)
        assert producer.rate(LOOKED_AT_S) <= HELD

        removed = time.time()
        operator.removes_quota(words)
        before = producer.delivered
        # Two of the three send on at once; kafka-python waits for as long as it was told.
        obeys = kind is KafkaPython
        within(LONGEST_WAIT_S if obeys else 1, lambda: producer.delivered > before, "it is free")
        assert time.time() - removed < LONGEST_WAIT_S
        assert producer.rate(0.5) > 10 * LIMIT
        operator.sees_nobody_throttled()
        operator.sees_no_rule(words)


def test_a_raised_limit_releases_clients_throttled_under_the_lower_one(
    broker: BrokerProcess, operator: Operator
) -> None:
    with started(broker, Librdkafka, "raised", None) as producer:
        within(10, lambda: producer.delivered, "the first record")
        operator.adds_quota({"client-id": "raised"}, "25 kB")
        # The first throttles are short: they are of requests that the broker had read before the limit.
        row = within(3, lambda: _long_throttled(operator, "raised"), "it is seen throttled")
        assert row.bound == LIMIT
        assert producer.rate(LOOKED_AT_S) <= HELD

        operator.edits_quota("client id raised", "1 GB")
        before = producer.delivered
        within(1, lambda: producer.delivered > before, "it is free")
        operator.sees_nobody_throttled()


def _long_throttled(operator: Operator, client_id: str) -> SeenThrottle | None:
    row = operator.sees_throttled(client_id)
    return row if row.left_ms is not None and row.left_ms > 4_000 else None


@contextmanager
def _watching(broker: BrokerProcess, client_id: str) -> Iterator[list[float]]:
    """The times of day at which the broker said that it holds the client; complete when the block is left."""
    held_at: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not held_at and not ended.wait(0.03):
            if broker.throttled(client_id):
                held_at.append(time.time())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield held_at
    finally:
        ended.set()
        watcher.join()


def _counts_down(operator: Operator, client_id: str) -> None:
    """The time left falls as the clock goes, between two updates of the page too."""
    looks: list[tuple[float, int, float]] = []

    def has_fallen() -> bool:
        """Looks once more, and notes when the look began and ended."""
        began = time.monotonic() * 1000
        left_ms = operator.sees_throttled(client_id).left_ms
        assert left_ms is not None
        if looks and looks[-1][1] == left_ms:
            return False
        if looks and looks[-1][1] < left_ms:
            looks.clear()  # It is throttled for its next request.
        looks.append((began, left_ms, time.monotonic() * 1000))
        return True

    while len(looks) < 5:
        within(2, has_fallen, "the time left falls")
        time.sleep(0.15)
    (began, first, began_at_most), (ended, last, ended_at_most) = looks[0], looks[-1]
    rounded = 250 + (100 if first < 10_000 else 1_000)
    assert ended - began_at_most - rounded <= first - last <= ended_at_most - began + rounded
