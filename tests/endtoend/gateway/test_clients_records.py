"""What each Python client writes and reads, directly and through a gateway: every compression and acks, large
records, idempotence, transactions, all partitions, logins and TLS.
"""

from collections.abc import Sequence
from typing import Final

import pytest
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import KafkaException

from tests.support import kafka_tools
from tests.support.broker_process import USERS
from tests.support.gateway_process import Way
from tests.support.real_clients import CLIENTS, OAUTHBEARER, Client, KafkaPython, Target, create
from tests.support.real_clients import kafka as kafka_python

pytestmark = [
    *kafka_tools.pytestmark,
    # kafka-python leaves the sockets of a login that fails to the collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <s:pytest.PytestUnraisableExceptionWarning"),
]

each_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
SMALL: Final = [b"%d " % number * 50 for number in range(300)]
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ANY_ERROR: Final = (KafkaException, AIOKafkaError, kafka_python.errors.KafkaError)


def large(*sizes: int) -> Sequence[bytes]:
    """Values that no two places share, so that a piece in the wrong place is found."""
    return [b"".join(b"%08d" % at for at in range(0, size, 8))[:size] for size in sizes]


@each_client
@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(way: Way, client: Client, codec: str, acks: str) -> None:
    target, topic = Target(way.plain), way.topic("codecs")
    create(target, topic)
    offsets = client.produce(target, topic, SMALL, acks=acks, codec=codec)
    if acks != "0":
        assert offsets == list(range(300))
    assert client.read(target, topic, 300) == SMALL


@each_client
@pytest.mark.parametrize("idempotent", [False, True])
def test_large_records_come_back_as_they_were_sent(way: Way, client: Client, idempotent: bool) -> None:
    """Around the size from which frames are spliced, of a megabyte, and of ten."""
    target, topic = Target(way.plain), way.topic("large")
    create(target, topic)
    values = large(1, 65_000, 65_200, 65_400, 65_536, 70_000, 999_999, 10_000_000, 3, 1_000_000)
    assert client.produce(target, topic, values, idempotent=idempotent) == list(range(len(values)))
    assert client.read(target, topic, len(values)) == values


@each_client
def test_an_idempotent_producer_has_no_gaps(way: Way, client: Client) -> None:
    target, topic = Target(way.plain), way.topic("idempotent")
    create(target, topic)
    values = [b"%d" % number for number in range(5_000)]
    assert client.produce(target, topic, values, idempotent=True) == list(range(5_000))
    assert client.read(target, topic, 5_000) == values


@each_client
def test_every_partition_is_written_and_read_at_its_leader(way: Way, client: Client) -> None:
    """Six partitions over three nodes: leaders on all of them."""
    target, topic = Target(way.plain), way.topic("partitions")
    create(target, topic, 6)
    values = [b"%d" % number for number in range(600)]
    for partition in range(6):
        written = client.produce(target, topic, values[partition::6], partition=partition)
        assert written == list(range(100))
    assert sorted(client.read(target, topic, 600, partitions=6), key=int) == values


@each_client
def test_transactions_are_committed_and_aborted(way: Way, client: Client) -> None:
    target, topic = Target(way.plain), way.topic("transactions")
    create(target, topic)
    client.transact(target, topic, [b"1", b"2"], commit=True)
    client.transact(target, topic, [b"3", b"4"], commit=False)
    client.transact(target, topic, [b"5"], commit=True)
    assert client.read(target, topic, 3, committed=True) == [b"1", b"2", b"5"]
    assert client.read(target, topic, 5) == [b"1", b"2", b"3", b"4", b"5"]


@each_client
@pytest.mark.parametrize("mechanism", [*MECHANISMS, OAUTHBEARER])
def test_a_user_logs_in(way: Way, client: Client, mechanism: str) -> None:
    address, topic = way.bootstrap("SASL_PLAINTEXT"), way.topic("logins")
    target = Target(address, "SASL_PLAINTEXT", mechanism)
    create(target, topic)
    assert client.produce(target, topic, SMALL) == list(range(300))
    assert client.read(target, topic, 300) == SMALL


def test_a_token_that_has_expired_is_refused(way: Way) -> None:
    """librdkafka refuses to make such a token, and aiokafka does not notice that a broker refuses it."""
    address = way.bootstrap("SASL_PLAINTEXT")
    with pytest.raises(kafka_python.errors.KafkaError):
        KafkaPython().login(Target(address, "SASL_PLAINTEXT", OAUTHBEARER, token_life_s=-100))


@each_client
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", USERS["alice"])])
def test_a_wrong_login_is_refused(way: Way, client: Client, mechanism: str, user: str, password: str) -> None:
    address = way.bootstrap("SASL_PLAINTEXT")
    client.login(Target(address, "SASL_PLAINTEXT", mechanism))
    with pytest.raises(ANY_ERROR):
        client.login(Target(address, "SASL_PLAINTEXT", mechanism, user, password))


@each_client
def test_tls_is_ended_and_begun_again(way: Way, client: Client) -> None:
    target, topic = Target(way.bootstrap("SSL"), "SSL"), way.topic("tls")
    create(target, topic)
    values = [*SMALL, *large(1_000_000, 3_000_000)]
    assert client.produce(target, topic, values) == list(range(302))
    assert client.read(target, topic, 302) == values
