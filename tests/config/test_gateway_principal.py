"""A gateway whose clients cannot keep their principals upstream does not start."""

import pytest

from broker.common.errors import ConfigError
from broker.config.load import load

PRINCIPAL = "gateway.upstream.principal"
MAP = "gateway.upstream.principal.map.location"
JAAS = "upstream.sasl.jaas.config=x"
LOGINS = ("gateway.authentication=gateway", "upstream.security.protocol=SASL_SSL", JAAS)


def refused(*settings: str) -> str:
    """What is refused, "" if nothing is."""
    try:
        config = load(None, ["upstream.bootstrap.servers=kafka-1.example:9092", *settings], {}).config
        config.gateway.check(config.upstream, "gateway")
    except ConfigError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "settings",
    [
        (),
        (f"{PRINCIPAL}=gateway",),
        (f"{PRINCIPAL}=delegation-token", *LOGINS),
        (f"{PRINCIPAL}=map", f"{MAP}=/etc/weir/principals", *LOGINS),
        (
            f"{PRINCIPAL}=delegation-token",
            "listener.name.plaintext.gateway.authentication=gateway",
            "upstream.security.protocol=SASL_PLAINTEXT",
            "upstream.sasl.jaas.config.location=/etc/weir/upstream",
        ),
    ],
)
def test_each_value_is_accepted_with_what_it_needs(settings: tuple[str, ...]) -> None:
    assert refused(*settings) == ""


@pytest.mark.parametrize("value", ["", "client", "Gateway", "delegation_token"])
def test_another_value_is_refused(value: str) -> None:
    expected = f"{PRINCIPAL}={value!r} is not allowed: one of gateway, delegation-token, map"
    assert refused(f"{PRINCIPAL}={value}") == expected


@pytest.mark.parametrize("value", ["delegation-token", "map"])
@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        (
            ("upstream.security.protocol=SASL_SSL", JAAS),
            "gateway, as no listener has gateway.authentication=gateway: clients log in upstream",
        ),
        (
            ("gateway.authentication=gateway", "upstream.security.protocol=SSL", JAAS),
            "gateway, as upstream.security.protocol=SSL has no logins: {} needs SASL_PLAINTEXT or SASL_SSL",
        ),
        (
            ("gateway.authentication=gateway", "upstream.security.protocol=SASL_SSL"),
            "gateway without upstream.sasl.jaas.config: the gateway itself has to log in",
        ),
    ],
)
def test_what_is_missing_is_named(value: str, settings: tuple[str, ...], allowed: str) -> None:
    own = (f"{PRINCIPAL}={value}", *((f"{MAP}=/etc/weir/principals",) if value == "map" else ()))
    assert refused(*own, *settings) == f"{PRINCIPAL}={value!r} is not allowed: {allowed.format(value)}"


def test_a_file_belongs_to_map() -> None:
    assert refused(f"{PRINCIPAL}=map", *LOGINS) == (
        f"{MAP}='' is not allowed: a file with the credentials of principals, as {PRINCIPAL}=map is set"
    )
    assert refused(f"{MAP}=/etc/weir/principals", *LOGINS) == (
        f"{MAP}='/etc/weir/principals' is not allowed: only with {PRINCIPAL}=map"
    )
