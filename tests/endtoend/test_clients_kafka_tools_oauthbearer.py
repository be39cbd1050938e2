"""Kafka's own client logs in with an access token from a file, and renews the login."""

import time
from pathlib import Path

import pytest

from tests.support import kafka_tools
from tests.support.broker_process import BrokerProcess
from tests.support.token_issuer import AUDIENCE, token, write_key_set

pytestmark = kafka_tools.pytestmark

PACKAGE = "org.apache.kafka.common.security.oauthbearer"


def test_kafkas_client_logs_in_with_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    file = tmp_path / "token"
    # Kafka's client wants whole seconds.
    file.write_text(token(int(now), exp=int(now) + 600))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"
    files = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={file}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{allowed} {files}")
    settings = tmp_path / "client.properties"
    settings.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={PACKAGE}.OAuthBearerLoginModule required extension_traceId="7";\n'
        f"sasl.login.callback.handler.class={PACKAGE}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}\n"
    )
    broker_settings = (
        "sasl.enabled.mechanisms=OAUTHBEARER",
        f"sasl.oauthbearer.jwks.endpoint.url={write_key_set(tmp_path)}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        "sasl.oauthbearer.allow.unverified.issuer=true",
        "connections.max.reauth.ms=2000",
    )
    with BrokerProcess(tmp_path / "data", *broker_settings) as broker:
        output = kafka_tools.run(
            *(kafka_tools.PRODUCER, "--topic", "t", "--num-records", "600", "--record-size", "100"),
            *("--throughput", "100", "--producer-props", f"bootstrap.servers={broker.sasl}"),
            *("--producer.config", str(settings)),
        )
        assert "600 records sent" in output
        assert not [line for line in broker.log_lines if "its session has ended" in line]
