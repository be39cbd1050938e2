"""Listener strings and how the keys about listeners fit together."""

import pytest

from broker.config.listeners import Address, Endpoint, Listener, SecurityProtocol, read_address
from broker.config.load import build_rooms
from broker.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        (":0", "", 0),
        ("[::1]:65535", "::1", 65535),
        ("[fe80::1%eth0]:1", "fe80::1%eth0", 1),
        ("broker-1.example:80", "broker-1.example", 80),
    ],
)
def test_addresses_are_read_and_written_back(text: str, host: str, port: int) -> None:
    assert read_address(text) == Address(host, port)
    assert str(read_address(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", "host:65536", "host:-1", "host:٣", "::1:9092", "ho st:1", "host:9092/", "a,b:1"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_address(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        ("", False),
        ("0.0.0.0", False),
    ],
)
def test_loopback_is_known_by_its_address(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback is loopback


def test_listeners_get_their_protocol_and_their_advertised_address() -> None:
    network = build_rooms(
        {
            "listeners": "internal://127.0.0.1:0, CLIENTS://0.0.0.0:9094",
            "advertised.listeners": "CLIENTS://broker.example:19094",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        }
    ).network
    assert network.listeners == (
        Endpoint("INTERNAL", Address("127.0.0.1", 0)),
        Endpoint("CLIENTS", Address("0.0.0.0", 9094)),
    )
    assert network.resolved_listeners() == (
        Listener("INTERNAL", SecurityProtocol.PLAINTEXT, "127.0.0.1", 0, "127.0.0.1", 0),
        Listener("CLIENTS", SecurityProtocol.SASL_PLAINTEXT, "0.0.0.0", 9094, "broker.example", 19094),
    )


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "9092"}, "listeners"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners"),
        ({"listeners": "OTHER://:1"}, "listeners"),
        ({"advertised.listeners": "OTHER://h:1"}, "advertised.listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"listeners": "PLAINTEXT://[::]:1"}, "advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT:SSL"}, "listener.security.protocol.map"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "listener.security.protocol.map"),
    ],
)
def test_listener_keys_that_do_not_fit_stop_the_start(values: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_rooms(values)
    assert caught.value.key == key
