"""A limit holds a running producer whichever interface set it, and is the same by all of them."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from tests.support.broker_process import BrokerProcess, within
from tests.support.quota_interfaces import Entity, set_by_kafka_configs, set_by_rest, set_by_wire
from tests.support.real_producers import Aiokafka, KafkaPython, Librdkafka, RealProducer

pytestmark = pytest.mark.endtoend

LIMIT: Final = 200_000
LONGEST_WAIT_S: Final = 11

SetLimit = Callable[[BrokerProcess, Entity, int | None], None]
KAFKA_CONFIGS: Final[Any] = pytest.param(set_by_kafka_configs, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("weir")) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_rules_are_left(broker: BrokerProcess) -> Iterator[None]:
    yield
    for rule in broker.ask("GET", "/api/v1/client-quotas")["items"]:
        set_by_rest(broker, rule["entity"], None)


@pytest.mark.parametrize(
    ("kind", "set_limit"),
    [
        (Librdkafka, set_by_rest),
        (Aiokafka, set_by_wire),
        (KafkaPython, set_by_rest),
        *(
            pytest.param(kind, set_limit, marks=pytest.mark.slow)
            for kind, set_limit in (
                (Librdkafka, set_by_wire),
                (Aiokafka, set_by_rest),
                (KafkaPython, set_by_wire),
                *((kind, set_by_kafka_configs) for kind in (Librdkafka, Aiokafka, KafkaPython)),
            )
        ),
    ],
)
def test_a_client_id_is_held_and_freed(
    broker: BrokerProcess, set_limit: SetLimit, kind: type[RealProducer]
) -> None:
    client_id = f"{kind.__name__}-{set_limit.__name__}"
    with kind(broker.plain, client_id) as producer:
        within(10, lambda: producer.delivered, "the first record")
        set_limit(broker, {"client-id": client_id}, LIMIT)
        row = within(1, lambda: broker.throttled(client_id), "it is throttled")
        assert row["entity"] == {"client-id": client_id}
        assert row["bound"] == LIMIT < row["observed"]
        assert producer.rate(2) <= 2 * LIMIT

        set_limit(broker, {"client-id": client_id}, None)
        before = producer.delivered
        # kafka-python waits by itself for as long as it was told; the broker lets it go at once.
        within(1, lambda: broker.throttled(client_id) is None, "the broker lets it go")
        within(LONGEST_WAIT_S if kind is KafkaPython else 1, lambda: producer.delivered > before, "it sends")


@pytest.mark.parametrize("set_limit", [set_by_wire, KAFKA_CONFIGS])
@pytest.mark.parametrize(
    "entity",
    [
        {"user": "alice"},
        {"user": "alice", "client-id": "billing"},
        {"user": "alice", "client-id": None},
        {"user": None},
        {"user": None, "client-id": "billing"},
        {"user": None, "client-id": None},
        {"client-id": "billing"},
        {"client-id": None},
    ],
)
def test_every_kind_of_entity_is_the_same_by_every_interface(
    broker: BrokerProcess, set_limit: SetLimit, entity: dict[str, str | None]
) -> None:
    set_limit(broker, entity, LIMIT)
    (rule,) = broker.ask("GET", "/api/v1/client-quotas")["items"]
    assert rule["entity"] == entity
    assert rule["limits"]["producer_byte_rate"]["value"] == LIMIT
    with Librdkafka(broker.sasl, "billing", "alice"):
        row = within(5, lambda: broker.throttled("billing"), "it is throttled")
        assert row["entity"] == entity and row["principal"] == "alice"
    set_limit(broker, entity, None)
    assert broker.ask("GET", "/api/v1/client-quotas")["items"] == []
