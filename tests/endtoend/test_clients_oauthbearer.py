"""Clients that log in with access tokens: confluent-kafka by callback and by OIDC, kafka-python, aiokafka."""

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider

from tests.support.broker_process import BrokerProcess
from tests.support.oauth_server import KEYS, TOKENS, OAuthServer, oauth_server
from tests.support.prometheus import parse
from tests.support.token_issuer import AUDIENCE, ISSUER, as_json, key_set, rsa_key

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas in a way that is going
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaTokenProvider

pytestmark = pytest.mark.endtoend

OF_ANY: Final = (
    "sasl.enabled.mechanisms=OAUTHBEARER",
    "sasl.oauthbearer.allow.unverified.audience=true",
    "sasl.oauthbearer.allow.unverified.issuer=true",
)
TOPIC: Final = "orders"
METRICS: Final = "kafka_server_socket_server_metrics"


@dataclass
class Scene:
    issuer: OAuthServer
    broker: BrokerProcess


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with oauth_server() as issuer:
        settings = (
            "sasl.enabled.mechanisms=OAUTHBEARER",
            f"sasl.oauthbearer.jwks.endpoint.url={issuer.url(KEYS)}",
            f"sasl.oauthbearer.expected.audience={AUDIENCE}",
            f"sasl.oauthbearer.expected.issuer={ISSUER}",
        )
        with BrokerProcess(tmp_path_factory.mktemp("data"), *settings) as broker:
            yield Scene(issuer, broker)


def librdkafka(scene: Scene, **more: Any) -> dict[str, Any]:
    common = {
        "bootstrap.servers": scene.broker.sasl,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "message.timeout.ms": 5_000,
        "log_level": 0,
    }
    return common | more


def send(settings: dict[str, Any], until: Callable[[], bool] = lambda: True) -> list[str]:
    """Send a record, then others until something is so; return their errors, "" for those written."""
    failures: list[str] = []
    producer = confluent_kafka.Producer(settings)
    while True:
        producer.produce(TOPIC, b"value", on_delivery=lambda error, _: failures.append(str(error or "")))
        assert producer.flush(15) == 0
        if until():
            return failures
        time.sleep(0.05)


def by_callback(scene: Scene, **claims: Any) -> None:
    def tokens(_config: str) -> tuple[str, float]:
        return scene.issuer.token(**claims), time.time() + scene.issuer.life_s

    assert send(librdkafka(scene, oauth_cb=tokens)) == [""]


def by_oidc(scene: Scene, **claims: Any) -> None:
    assert not claims
    settings = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "app",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": scene.issuer.url(TOKENS),
        "sasl.oauthbearer.extensions": "traceId=7",
    }
    assert send(librdkafka(scene, **settings)) == [""]


def by_kafka_python(scene: Scene, **claims: Any) -> None:
    class Tokens(KafkaTokenProvider):
        def token(self) -> str:
            return scene.issuer.token(**claims)

    producer = kafka.KafkaProducer(
        bootstrap_servers=scene.broker.sasl,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(),
        bootstrap_timeout_ms=5_000,
        max_block_ms=5_000,
    )
    try:
        producer.send(TOPIC, b"value").get(10)
    finally:
        producer.close(5)


def by_aiokafka(scene: Scene, **claims: Any) -> None:
    class Tokens(AbstractTokenProvider):
        async def token(self) -> str:
            return scene.issuer.token(**claims)

    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=scene.broker.sasl,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Tokens(),
        )
        try:
            await producer.start()
            await producer.send_and_wait(TOPIC, b"value")
        finally:
            await producer.stop()

    asyncio.run(produce())


@pytest.mark.parametrize("send_one", [by_callback, by_oidc, by_kafka_python, by_aiokafka])
def test_a_client_logs_in_with_a_token_and_produces(scene: Scene, send_one: Callable[..., None]) -> None:
    before = scene.issuer.issued
    send_one(scene)
    assert scene.issuer.issued > before


@pytest.mark.parametrize("send_one", [by_callback, by_kafka_python, by_aiokafka])
def test_a_token_for_another_audience_is_refused_with_a_line(
    scene: Scene, send_one: Callable[..., None]
) -> None:
    scene.broker.log_lines.clear()
    with pytest.raises((AssertionError, kafka.errors.KafkaError, aiokafka.errors.KafkaError)):
        send_one(scene, aud="other")
    assert scene.broker.lines_with("the token is for another audience")


def test_a_client_renews_its_login_before_the_token_ends_and_loses_no_record(scene: Scene) -> None:
    def figures() -> tuple[float, float]:
        families = parse(scene.broker.ask("GET", "/metrics"))
        names = ("successful_reauthentication_total", "expired_connections_killed_count")
        renewed, killed = (sum(families[f"{METRICS}_{name}"].samples.values()) for name in names)
        return renewed, killed

    # librdkafka asks for a token after 2.4 s, and renews a login at nine tenths of its token's life.
    def tokens(_config: str) -> tuple[str, float]:
        return scene.issuer.token(exp=time.time() + 12), time.time() + 3

    before = figures()

    def renewed() -> bool:
        return figures()[0] > before[0]

    assert set(send(librdkafka(scene, oauth_cb=tokens), until=renewed)) == {""}
    assert figures()[1] == before[1]


def test_a_new_key_of_the_issuer_is_found(scene: Scene) -> None:
    scene.issuer.keys = key_set(as_json(rsa_key()), as_json(rsa_key("new"), kid="new"))
    before = scene.issuer.keys_read

    def tokens(_config: str) -> tuple[str, float]:
        return scene.issuer.token(key=rsa_key("new"), key_id="new"), time.time() + 300

    assert send(librdkafka(scene, oauth_cb=tokens, **{"message.timeout.ms": 15_000})) == [""]
    assert scene.issuer.keys_read == before + 1


def test_a_start_without_the_issuer_goes_on(tmp_path: Path) -> None:
    with oauth_server() as issuer:
        url = issuer.url(KEYS)
    settings = (*OF_ANY, f"sasl.oauthbearer.jwks.endpoint.url={url}")
    with BrokerProcess(tmp_path, *settings) as broker:
        lines = broker.lines_with("cannot read the keys of the token issuer")
        assert len(lines) == 1 and "logins with OAUTHBEARER fail until it can" in lines[0]


def test_a_start_with_a_file_that_is_no_key_set_stops_with_one_line(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text("{}")
    settings = (*OF_ANY, f"sasl.oauthbearer.jwks.endpoint.url={file.as_uri()}")
    broker = BrokerProcess(tmp_path / "data", *settings)
    with pytest.raises(AssertionError, match="the broker ended before it served"):
        broker.start()
    (line,) = [line for line in broker.log_lines if "sasl.oauthbearer.jwks.endpoint.url" in line]
    assert "it has no list named keys" in line
