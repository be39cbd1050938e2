"""The settings and commands that reach a listener, for each security protocol and mechanism."""

import shlex

import pytest
from msgspec.structs import replace

from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.client_endpoint import BY_STRENGTH, ClientEndpoint

PLAIN = ClientEndpoint("[::1]:9092")
MUTUAL = ClientEndpoint("b:1", "SSL", needs_certificate=True)
LOGIN = ClientEndpoint("b:2", "SASL_SSL", ("PLAIN", "SCRAM-SHA-256"))
TOKEN = ClientEndpoint("b:3", "SASL_PLAINTEXT", ("OAUTHBEARER",))
SECURED = (MUTUAL, LOGIN, TOKEN)


def test_a_plain_listener_needs_its_address_only() -> None:
    assert PLAIN.tool("kafka-topics.sh") == ["kafka-topics.sh", "--bootstrap-server", "[::1]:9092"]
    assert PLAIN.java() == PLAIN.librdkafka() == {}
    assert PLAIN.client_properties() == PLAIN.placeholders() == PLAIN.mechanism == ""
    assert shlex.split(PLAIN.kcat("me")) == [
        *("echo", "hello", "|", "kcat", "-b", "[::1]:9092", "-X", "client.id=me", "-t", "greetings", "-P")
    ]
    assert '{"bootstrap.servers": "[::1]:9092", "client.id": "me"}' in PLAIN.python("me")


@pytest.mark.parametrize("endpoint", SECURED, ids=lambda each: each.protocol)
def test_commands_name_the_file_with_what_a_listener_needs(endpoint: ClientEndpoint) -> None:
    assert endpoint.tool("t")[-2:] == ["--command-config", "client.properties"]
    assert f"security.protocol={endpoint.protocol}\n" in endpoint.client_properties()
    assert endpoint.placeholders().startswith("Replace ")
    for key, value in endpoint.librdkafka().items():
        assert f"{key}={value}" in shlex.split(endpoint.kcat("me"))
        assert f'"{key}": "{value}"' in endpoint.python("me")


@pytest.mark.parametrize(
    ("endpoint", "java", "librdkafka", "words"),
    [
        (
            MUTUAL,
            {
                *("security.protocol", "ssl.truststore.type", "ssl.truststore.location"),
                *("ssl.keystore.type", "ssl.keystore.location"),
            },
            {"security.protocol", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location"},
            ["ca.pem", "client.pem"],
        ),
        (
            LOGIN,
            {
                *("security.protocol", "ssl.truststore.type", "ssl.truststore.location"),
                *("sasl.mechanism", "sasl.jaas.config"),
            },
            {"security.protocol", "ssl.ca.location", "sasl.mechanism", "sasl.username", "sasl.password"},
            ["ca.pem", "USER", "PASSWORD"],
        ),
        (
            TOKEN,
            {
                *("security.protocol", "sasl.mechanism", "sasl.jaas.config"),
                *("sasl.oauthbearer.token.endpoint.url", "sasl.login.callback.handler.class"),
            },
            {
                *("security.protocol", "sasl.mechanism"),
                *(f"sasl.oauthbearer.{key}" for key in ("method", "client.id", "client.secret")),
                "sasl.oauthbearer.token.endpoint.url",
            },
            ["ID", "SECRET", "ISSUER"],
        ),
    ],
    ids=["certificate", "password", "token"],
)
def test_the_settings_are_those_that_the_listener_asks_for(
    endpoint: ClientEndpoint, java: set[str], librdkafka: set[str], words: list[str]
) -> None:
    assert set(endpoint.java()) == java
    assert set(endpoint.librdkafka()) == librdkafka
    for word in words:
        assert word in endpoint.placeholders() and word in str(endpoint.java() | endpoint.librdkafka())


def test_the_strongest_mechanism_is_named() -> None:
    for number, mechanism in enumerate(BY_STRENGTH):
        listener = ClientEndpoint("b:1", "SASL_SSL", tuple(reversed(BY_STRENGTH[number:])))
        assert listener.mechanism == mechanism == listener.java()["sasl.mechanism"]


@pytest.mark.parametrize("endpoint", [PLAIN, LOGIN])
def test_a_client_that_may_not_create_topics_is_told_where_to_create_one(endpoint: ClientEndpoint) -> None:
    assert endpoint.hints() == endpoint.placeholders()
    assert endpoint.hints(may_edit=False, is_gateway=True) == endpoint.placeholders()
    refused = replace(endpoint, creates_topics=False)
    for hints, who in (
        (refused.hints(may_edit=False), "ask an editor to create it first."),
        (refused.hints(is_gateway=True), "in the upstream cluster first: clients may not."),
        (refused.hints(may_edit=False, is_gateway=True), "in the upstream cluster first: clients may not."),
    ):
        assert hints.startswith(endpoint.placeholders()) and hints.endswith(who)
    hints = refused.hints()
    assert hints.startswith(endpoint.placeholders())
    assert hints.endswith("Create the topic greetings first, on the console's page Topics: clients may not.")


def test_commands_use_the_first_listener_that_needs_an_address_only() -> None:
    assert ServerInfo(1, "weir 1", (LOGIN, PLAIN, MUTUAL), "").endpoint is PLAIN
    assert ServerInfo(1, "weir 1", (LOGIN, MUTUAL), "").endpoint is LOGIN
    assert ServerInfo(1, "weir 1", (), "").endpoint == ClientEndpoint("localhost:9092")
    assert ServerInfo(1, "weir 1", (LOGIN, PLAIN), "").bootstrap == ("b:2", "[::1]:9092")
