"""Logins by delegation token with the Python clients, at Weir and at Kafka.

A token is a SCRAM login with its id as the user and its HMAC as the password, and with the extension
`tokenauth=true` in the client's first message. None of the clients sends the extension by itself:

    kafka-python   has `register_sasl_mechanism`, with which a program adds it in a few lines
    aiokafka       has no such place: a program must replace `ScramAuthenticator.first_message`
    librdkafka     cannot: the message is made in C, and a `,` in the user name is escaped
"""

import base64
import time
import warnings
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import pytest
import trio
from aiokafka.conn import ScramAuthenticator

from broker.common.errors import ErrorCode
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    ExpireDelegationTokenRequest,
)
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.endtoend.test_clients_scram import MECHANISMS, TOPIC, by_aiokafka, by_kafka_python
from tests.support import kafka_tools
from tests.support.broker_process import USERS, BrokerProcess
from tests.support.kafka_cluster import KafkaCluster
from tests.support.wire import connect

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    from kafka.net.sasl import SaslMechanismScram, register_sasl_mechanism

pytestmark = [
    pytest.mark.endtoend,
    # The clients leave sockets open after a login that failed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SETTINGS: Final = (
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key=a-key-for-delegation-tokens",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS;User:bob",
    "min.insync.replicas=1",
)
EXTENSION: Final = ",tokenauth=true"
PATIENCE_S: Final = 30


class Token(NamedTuple):
    id: str
    hmac: bytes

    @property
    def password(self) -> str:
        return base64.b64encode(self.hmac).decode()


class Addresses(NamedTuple):
    plain: str
    sasl: str
    is_weir: bool


@pytest.fixture(scope="module", params=["weir", pytest.param("kafka", marks=kafka_tools.pytestmark)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "weir":
        with BrokerProcess(directory, *SETTINGS) as weir:
            addresses = Addresses(weir.plain, weir.sasl, True)
            trio.run(_create_topic, addresses)
            yield addresses
    else:
        with KafkaCluster(directory, 1, *SETTINGS) as kafka:
            addresses = Addresses(kafka.bootstrap(), kafka.bootstrap("SASL_PLAINTEXT"), False)
            trio.run(_create_topic, addresses)
            yield addresses


async def _create_topic(broker: Addresses) -> None:
    client = await connect(_port(broker.plain))
    request = CreateTopicsRequest([CreatableTopic(TOPIC, 1, 1)], 10_000)
    assert (await client.ask(request, 5)).topics[0].error_code == 0
    await client.stream.aclose()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


async def _ask(broker: Addresses, user: str, message: Any, version: int) -> Any:
    """Log in with the user's password, and return the response to one request."""
    with trio.fail_after(PATIENCE_S):
        client = await connect(_port(broker.sasl))
        assert (await client.ask(SaslHandshakeRequest("PLAIN"), 1)).error_code == 0
        password = f"\0{user}\0{USERS[user]}".encode()
        assert (await client.ask(SaslAuthenticateRequest(password), 1)).error_code == 0
        answer = await client.ask(message, version)
        await client.stream.aclose()
        return answer


def created(broker: Addresses, user: str) -> Token:
    answer = trio.run(_ask, broker, user, CreateDelegationTokenRequest(max_lifetime_ms=-1), 2)
    assert answer.error_code == 0
    return Token(answer.token_id, bytes(answer.hmac))


def ended(broker: Addresses, user: str, token: Token) -> None:
    """End the token. A broker of Kafka may answer before it knows a new one."""
    until = time.monotonic() + PATIENCE_S
    while True:
        answer = trio.run(_ask, broker, user, ExpireDelegationTokenRequest(token.hmac, -1), 2)
        if answer.error_code != ErrorCode.DELEGATION_TOKEN_NOT_FOUND or time.monotonic() > until:
            break
        time.sleep(0.1)
    assert answer.error_code == 0


class TokenMechanism(SaslMechanismScram):  # type: ignore[misc]
    """What a program registers with kafka-python."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        scram = self._scram_client
        first = scram.first_message

        def first_message() -> bytes:
            message = first() + EXTENSION.encode()
            scram.auth_message = message.removeprefix(b"n,,")
            return bytes(message)

        scram.first_message = first_message


@pytest.fixture
def registered() -> Iterator[None]:
    for mechanism in MECHANISMS:
        register_sasl_mechanism(mechanism, TokenMechanism, overwrite=True)
    yield
    for mechanism in MECHANISMS:
        register_sasl_mechanism(mechanism, SaslMechanismScram, overwrite=True)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.usefixtures("registered")
def test_kafka_python_logs_in_by_token_with_a_registered_mechanism(broker: Addresses, mechanism: str) -> None:
    token = created(broker, "bob")
    by_kafka_python(broker.sasl, mechanism, token.id, token.password)


@pytest.mark.usefixtures("registered")
def test_a_token_that_has_ended_lets_nobody_in(broker: Addresses) -> None:
    token = created(broker, "bob")
    ended(broker, "bob", token)
    with pytest.raises(Exception, match=r"(?i)authentication|timed? ?out|unable to bootstrap"):
        by_kafka_python(broker.sasl, "SCRAM-SHA-256", token.id, token.password)


def first_message_of_token(self: ScramAuthenticator) -> str:
    """What a program puts in the place of aiokafka's method."""
    bare = f"n={self._sasl_plain_username},r={self._nonce}{EXTENSION}"
    self._auth_message += bare
    return f"n,,{bare}"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka_logs_in_by_token_with_another_first_message(broker: Addresses, mechanism: str) -> None:
    if not broker.is_weir:
        pytest.skip("aiokafka tries once, and a broker of Kafka may not know a new token yet")
    token = created(broker, "bob")
    with patch.object(ScramAuthenticator, "first_message", first_message_of_token):
        by_aiokafka(broker.sasl, mechanism, token.id, token.password)


@pytest.mark.usefixtures("registered")
def test_a_login_by_token_has_the_rights_of_the_owner_and_no_more(broker: Addresses) -> None:
    token = created(broker, "alice")
    with pytest.raises(Exception, match=r"(?i)authorization"):
        by_kafka_python(broker.sasl, "SCRAM-SHA-256", token.id, token.password)
