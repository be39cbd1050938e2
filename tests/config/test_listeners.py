"""Listener strings, and conflicts between the listener keys."""

import pytest

from broker.common.errors import ConfigError
from broker.config.listeners import (
    MAX_LISTENERS,
    Address,
    Endpoint,
    ListenerConfig,
    SecurityProtocol,
    Server,
    read_address,
)
from broker.config.load import build_config


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
def test_invalid_addresses_are_refused(text: str) -> None:
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
        ("127.0.0.1.evil.example", False),
        ("127.evil.example", False),
    ],
)
def test_loopback_is_known_by_its_address(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback is loopback


def test_listeners_get_their_protocol_and_their_advertised_address() -> None:
    network = build_config(
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
        ListenerConfig("INTERNAL", SecurityProtocol.PLAINTEXT, "127.0.0.1", 0, "127.0.0.1", 0),
        ListenerConfig("CLIENTS", SecurityProtocol.SASL_PLAINTEXT, "0.0.0.0", 9094, "broker.example", 19094),
    )


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"listeners": ""}, "listeners"),
        ({"listeners": "9092"}, "listeners"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "listeners"),
        ({"listeners": "OTHER://:1"}, "listeners"),
        ({"advertised.listeners": "OTHER://h:1"}, "advertised.listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "listeners"),
        ({"listeners": "PLAINTEXT://[::]:1"}, "listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "listener.security.protocol.map"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "listener.security.protocol.map"),
    ],
)
def test_listener_keys_that_do_not_fit_stop_the_start(values: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(values)
    assert caught.value.key == key


FORM = (
    "a list of NAME://host:port, such as PLAINTEXT://127.0.0.1:9092; a port is from 0 to 65535; at most "
    f"{MAX_LISTENERS} listeners"
)


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("PLAINTEXT://h:65536", FORM),
        ("PLAINTEXT://h:70000", FORM),
        ("PLAINTEXT://h:24x", FORM),
        ("24x", FORM),
        ("localhost:9092", FORM),
        ("://h:1", FORM),
        ("PLAINTEXT://h", FORM),
        ("PLAINTEXT://h:1,,SSL://h:2", FORM),
        ("PLAINTEXT://h:1,PLAINTEXT://g:2", "each listener name once"),
        (
            "PLAINTEXT://0.0.0.0:9092",
            "set PLAINTEXT://host:port in advertised.listeners to a reachable address; "
            "0.0.0.0 means every interface",
        ),
    ],
)
def test_a_bad_listener_is_reported_with_its_value_and_the_form_that_is_allowed(
    listeners: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        build_config({"listeners": listeners})
    assert str(refused.value) == f"listeners='{listeners}' is not allowed: {reason}"


def test_a_port_of_65535_is_the_last_one() -> None:
    assert build_config({"listeners": "PLAINTEXT://h:65535"}).network.listeners[0].address.port == 65535


def test_a_bad_advertised_address_is_reported_as_it_was_written() -> None:
    values = {"listeners": "PLAINTEXT://:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"}
    with pytest.raises(ConfigError) as refused:
        build_config(values)
    assert str(refused.value) == (
        "advertised.listeners='PLAINTEXT://0.0.0.0:1' is not allowed: "
        "expected an address that clients can reach; 0.0.0.0 means every interface"
    )


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("h:1", "h:1", False),
        ("h:1", "h:2", True),
        ("h:1", "g:1", True),
        ("h:1", ":1", False),
        (":1", ":1", False),
        (":0", ":0", True),
        ("127.0.0.1:1", "[::1]:1", True),
    ],
)
def test_two_listeners_cannot_be_in_one_place(first: str, second: str, fits: bool) -> None:
    values = {
        "listeners": f"PLAINTEXT://{first},OTHER://{second}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
    }
    if fits:
        assert len(build_config(values).network.resolved_listeners()) == 2
        return
    with pytest.raises(ConfigError, match="a separate port"):
        build_config(values)


@pytest.mark.parametrize("count", [MAX_LISTENERS - 1, MAX_LISTENERS, MAX_LISTENERS + 1])
@pytest.mark.parametrize("key", ["listeners", "advertised.listeners"])
def test_there_is_a_limited_number_of_listeners(key: str, count: int) -> None:
    names = [f"L{number}" for number in range(count)]
    values = {
        "listeners": ",".join(f"{name}://h:{port}" for port, name in enumerate(names[:MAX_LISTENERS], 1)),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "inter.broker.listener.name": "L0",
    }
    values[key] = ",".join(f"{name}://h:{port}" for port, name in enumerate(names, 1))
    if count <= MAX_LISTENERS:
        made = build_config(values).network
        assert len(made.listeners if key == "listeners" else made.advertised_listeners) == count
    else:
        with pytest.raises(ConfigError, match=f"at most {MAX_LISTENERS} listeners"):
            build_config(values)


def planes(**values: str) -> dict[str, str]:
    listeners = build_config({key.replace("_", "."): text for key, text in values.items()}).network
    return {each.name: each.plane.value for each in listeners.resolved_listeners()}


TWO = "PLAINTEXT://h:1,CONTROLLER://h:2"
MAP = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"


def test_a_kraft_quickstart_file_has_a_controller_listener() -> None:
    found = planes(
        process_roles="broker,controller",
        listeners=TWO,
        inter_broker_listener_name="PLAINTEXT",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map=MAP,
    )
    assert found == {"PLAINTEXT": "data-plane", "CONTROLLER": "controller"}


def test_a_broker_only_names_the_controllers_of_elsewhere() -> None:
    assert planes(controller_listener_names="CONTROLLER", process_roles="broker") == {
        "PLAINTEXT": "data-plane"
    }


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"process_roles": "controller"}, "process.roles"),
        ({"process_roles": "broker,observer"}, "process.roles"),
        ({"process_roles": "broker,controller"}, "controller.listener.names"),
        (
            {"process_roles": "broker,controller", "controller_listener_names": "OTHER"},
            "controller.listener.names",
        ),
        ({"controller_listener_names": "CONTROLLER"}, "controller.listener.names"),
        (
            {"process_roles": "broker,controller", "controller_listener_names": "CONTROLLER,PLAINTEXT"},
            "listeners",
        ),
        ({"inter_broker_listener_name": "OTHER"}, "inter.broker.listener.name"),
        (
            {
                "process_roles": "broker,controller",
                "controller_listener_names": "CONTROLLER",
                "inter_broker_listener_name": "CONTROLLER",
            },
            "inter.broker.listener.name",
        ),
        ({"control_plane_listener_name": "OTHER"}, "control.plane.listener.name"),
        ({"control_plane_listener_name": "PLAINTEXT"}, "control.plane.listener.name"),
        ({"inter_broker_listener_name": "no name"}, "inter.broker.listener.name"),
    ],
)
def test_roles_of_listeners_that_do_not_fit_stop_the_start(values: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planes(**{"listeners": TWO, "listener_security_protocol_map": MAP, **values})
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "PLAINTEXT"),
        ({"inter.broker.listener.name": "controller"}, "CONTROLLER"),
        ({"security.inter.broker.protocol": "SASL_PLAINTEXT"}, "SASL_PLAINTEXT"),
        ({"control.plane.listener.name": "CONTROLLER"}, "PLAINTEXT"),
    ],
)
def test_the_listener_of_other_brokers_is_named_or_has_the_name_of_its_protocol(
    more: dict[str, str], name: str
) -> None:
    values = {"listeners": TWO, "listener.security.protocol.map": MAP, **more}
    assert build_config(values).network.inter_broker_listener == name


@pytest.mark.parametrize(
    ("more", "servers"),
    [
        ({}, (Server.BROKER,)),
        ({"control.plane.listener.name": "CONTROLLER"}, (Server.BROKER,)),
        (
            {"controller.listener.names": "CONTROLLER", "process.roles": "broker,controller"},
            (Server.BROKER, Server.CONTROLLER),
        ),
    ],
)
def test_a_controllers_listener_alone_has_a_socket_server_of_its_own(
    more: dict[str, str], servers: tuple[Server, ...]
) -> None:
    values = {"listeners": TWO, "listener.security.protocol.map": MAP, **more}
    assert build_config(values).network.servers == servers


def test_a_listeners_own_value_wins_over_the_common_one() -> None:
    values = {"num.network.threads": "2", "listener.name.clients.num.network.threads": "3"}
    network = build_config(values).network
    assert network.for_listener("CLIENTS").num_network_threads == 3
    assert network.for_listener("OTHER") is network
