"""The ports of upstream nodes overlap no other port of the gateway."""

import pytest
from click.testing import CliRunner

from broker.__main__ import main
from broker.common.errors import ConfigError
from broker.config.load import load
from broker.config.sections.gateway import check_node_ports

UPSTREAM = "upstream.bootstrap.servers=kafka-1.example:9092"
TWO = "listeners=PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093"
FIRST = "gateway.port.range=31000-31099"
SECOND = "listener.name.ssl.gateway.port.range"


def refused(*settings: str) -> str:
    """What is refused, "" if nothing is."""
    config = load(None, [UPSTREAM, *settings], {}).config
    try:
        check_node_ports(config.gateway, config.network, config.console)
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("second", "is_free"),
    [
        ("31100-31199", True),
        ("31099-31199", False),
        ("30900-30999", True),
        ("30900-31000", False),
        ("31050-31051", False),
        ("30000-32000", False),
        ("31000-31099", False),
    ],
)
def test_ranges_of_two_listeners_may_touch(second: str, is_free: bool) -> None:
    expected = (
        f"{SECOND}='{second}' is not allowed: a range that does not overlap that of the listener "
        f"PLAINTEXT, 31000-31099 ({SECOND} is for SSL alone)"
    )
    assert refused(TWO, FIRST, f"{SECOND}={second}") == ("" if is_free else expected)


def test_two_listeners_cannot_share_the_common_range() -> None:
    found = refused(TWO, FIRST)
    assert found.startswith("gateway.port.range='31000-31099' is not allowed: ")
    assert SECOND in found


@pytest.mark.parametrize(
    ("port", "is_free"), [(30_999, True), (31_000, False), (31_099, False), (31_100, True)]
)
@pytest.mark.parametrize("whose", ["its own", "another listener's", "console's"])
def test_a_range_may_begin_behind_another_port(whose: str, port: int, is_free: bool) -> None:
    settings = {
        "its own": ("PLAINTEXT", [f"listeners=PLAINTEXT://127.0.0.1:{port}"]),
        "another listener's": (
            "SSL",
            [f"listeners=PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:{port}", f"{SECOND}="],
        ),
        "console's": ("console.listener", [f"console.listener=127.0.0.1:{port}"]),
    }
    name, own = settings[whose]
    found = refused(FIRST, *own)
    if is_free:
        assert found == ""
    else:
        what = name if whose == "console's" else f"the listener {name}"
        allowed = f"a range that does not contain the port of {what}, {port}"
        assert found == f"gateway.port.range='31000-31099' is not allowed: {allowed}"


@pytest.mark.parametrize(
    ("settings", "is_free"),
    [
        ("listeners=A://10.0.0.1:9092,B://10.0.0.2:9092", True),
        ("listeners=A://10.0.0.1:9092,B://:9093", False),
        ("listeners=A://10.0.0.1:9092,B://10.0.0.1:9093", False),
    ],
)
def test_listeners_at_different_addresses_may_have_the_same_range(settings: str, is_free: bool) -> None:
    protocols = "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"
    reachable = "advertised.listeners=A://gateway.example:9092,B://gateway.example:9093"
    assert (refused(settings, protocols, reachable, FIRST) == "") is is_free
    # A port tells the gateway which node a client means, at whatever address.
    assert (
        refused(settings, protocols, reachable, FIRST, "listener.name.b.gateway.port.range=31001-31100") != ""
    )


def test_a_listener_with_names_needs_no_ports() -> None:
    names = "listener.name.ssl.gateway.sni.pattern=broker-$(nodeId).kafka.example"
    assert refused(TWO, FIRST, names) == ""


def test_the_start_stops_with_the_place_of_the_key(tmp_path) -> None:
    file = tmp_path / "gateway.properties"
    file.write_text(f"{UPSTREAM}\n{TWO}\n{FIRST}\n{SECOND}=31099-31199\n")
    result = CliRunner().invoke(main, ["gateway", str(file)])
    assert result.exit_code == 1
    assert f"{SECOND}='31099-31199'" in result.output and "line 4" in result.output


@pytest.mark.parametrize(
    "text",
    [
        "g.example",
        "g.example:9092",
        "g.example:0-9",
        "g.example:9-8",
        "g.example:65530-65536",
        ":31000-31009",
        "2001:db8::1:31000-31009",
        "b-$(nodeId).example:0",
        "b-$(nodeId).example:65536",
        "g.example:31000-31009,",
    ],
)
def test_other_gateways_have_an_address_for_every_node(text: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.drain\.to"):
        load(None, [f"gateway.drain.to={text}"], {})


def test_a_listener_has_other_gateways_of_its_own() -> None:
    common, own = "g.example:31000-31099", "b-$(nodeId).example:65535"
    settings = [f"gateway.drain.to={common}", f"listener.name.ssl.gateway.drain.to={own}"]
    gateway = load(None, settings, {}).config.gateway
    assert list(map(str, gateway.for_listener("PLAINTEXT").drain_to)) == [common]
    assert list(map(str, gateway.for_listener("SSL").drain_to)) == [own]


@pytest.mark.parametrize("text", ["-1", "2147483648", "soon"])
def test_the_time_of_a_drain_is_bounded(text: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.drain\.timeout\.ms"):
        load(None, [f"gateway.drain.timeout.ms={text}"], {})
    for allowed in ("0", "2147483647"):
        config = load(None, [f"gateway.drain.timeout.ms={allowed}"], {}).config
        assert config.gateway.drain_timeout_ms == int(allowed)
