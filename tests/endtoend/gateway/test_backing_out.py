"""docs/migration.md: clients go from a gateway back to the cluster, which has nothing of the gateway then."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support import kafka_tools
from tests.support.broker_process import within
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_tools import TOPICS, run

pytestmark = kafka_tools.pytestmark

TOPIC: Final = "orders"
GROUP: Final = "readers"
TRANSACTION: Final = "payments"
COUNT: Final = 10
WAIT_S: Final = 60


def produce(bootstrap: str, values: Sequence[bytes]) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": TRANSACTION, "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(TOPIC, value)
    producer.commit_transaction(WAIT_S)


def consumer(bootstrap: str, **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        | {name.replace("_", "."): value for name, value in settings.items()}
    )


def read(reader: Consumer, count: int) -> list[bytes | None]:
    """Consume this many records, and commit them one by one."""
    found = []
    while len(found) < count:
        message = reader.poll(WAIT_S)
        assert message is not None, f"{len(found)} of {count} records after {WAIT_S} s"
        if message.error():
            raise KafkaException(message.error())
        found.append(message.value())
        offset = TopicPartition(TOPIC, message.partition(), message.offset() + 1)
        reader.commit(offsets=[offset], asynchronous=False)
    return found


def clients(gateway: GatewayProcess) -> set[str | None]:
    """Return the client ids on the page *Connections*."""
    return {each["client_id"] for each in gateway.ask("GET", "/api/v1/connections")["items"]}


def topics(cluster: KafkaCluster) -> set[str]:
    return set(run(TOPICS, "--bootstrap-server", cluster.bootstrap(), "--list").split())


def test_clients_go_back_to_the_cluster_where_they_were(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    values = [b"%d" % number for number in range(3 * COUNT)]
    with KafkaCluster(tmp_path) as cluster:
        shared = ("quota.scope=cluster", "node.id=1")
        with GatewayProcess(tmp_path / "gateway", cluster.bootstrap(), *shared, nodes=1) as gateway:
            produce(gateway.bootstrap, values[: 2 * COUNT])
            first = consumer(gateway.bootstrap)
            first.subscribe([TOPIC])
            assert read(first, COUNT) == values[:COUNT]
            first.close()
            left = consumer(gateway.bootstrap, client_id="left-behind", group_id="others")
            left.list_topics(timeout=WAIT_S)
            # Some have changed their address, and one has not.
            produce(cluster.bootstrap(), values[2 * COUNT :])
            second = consumer(cluster.bootstrap())
            second.subscribe([TOPIC])
            assert read(second, COUNT) == values[COUNT : 2 * COUNT]
            within(10, lambda: "left-behind" in clients(gateway), "the client that is left")
            left.close()
            assert gateway.stop() == 0
            assert read(second, COUNT) == values[2 * COUNT :]
            second.close()
        left_over = {name for name in topics(cluster) if name.startswith("__weir_")}
        assert left_over
        run(TOPICS, "--bootstrap-server", cluster.bootstrap(), "--delete", "--topic", "__weir_.*")
        within(10, lambda: not any(name.startswith("__weir_") for name in topics(cluster)), "their deletion")
        assert TOPIC in topics(cluster)
