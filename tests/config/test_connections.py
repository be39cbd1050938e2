"""Connection limits: valid and invalid values, and the listener or user that they apply to."""

import pytest

from broker.common.errors import ConfigError
from broker.config.kinds import INT_MAX
from broker.config.load import load
from broker.config.sections import ConnectionConfig
from broker.config.sections.connections import RATE, users_with


def room_of(*settings: str) -> ConnectionConfig:
    return load(None, settings, {}).config.connections


def test_nothing_is_limited_at_first() -> None:
    section = room_of()
    assert {section.max_connections, section.max_creation_rate, section.max_connections_per_ip} == {INT_MAX}
    assert (section.max_connections_per_ip_overrides, section.ip_throttle_mode) == ((), "kip")


def test_a_listener_without_a_limit_of_its_own_has_the_brokers() -> None:
    section = room_of("max.connections=9", "listener.name.external.max.connections=5")
    assert section.for_listener("EXTERNAL").max_connections == 5
    assert section.for_listener("PLAINTEXT").max_connections == 9


@pytest.mark.parametrize("prefix", ["", "listener.name.external."])
@pytest.mark.parametrize("key", ["max.connections", "max.connection.creation.rate"])
def test_0_is_no_limit_that_a_broker_could_live_with(prefix: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        room_of(f"{prefix}{key}=0")
    room_of(f"{prefix}{key}=1")


def test_0_for_every_address_is_allowed_only_with_overrides() -> None:
    overrides = "max.connections.per.ip.overrides=10.0.0.7:0"
    assert room_of("max.connections.per.ip=0", overrides).max_connections_per_ip == 0
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip='?-1"):
        room_of("max.connections.per.ip=-1", overrides)
    for empty in ((), ("max.connections.per.ip.overrides=",)):
        assert room_of("max.connections.per.ip=1", *empty).max_connections_per_ip == 1
        with pytest.raises(
            ConfigError, match=r"max\.connections\.per\.ip=0 .*max\.connections\.per\.ip\.overrides"
        ):
            room_of("max.connections.per.ip=0", *empty)


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", ()),
        ("10.0.0.7:5", (("10.0.0.7", 5),)),
        (" bastion : 0 , 10.0.0.7 :5, b: 1", (("bastion", 0), ("10.0.0.7", 5), ("b", 1))),
        ("bastion:0, 10.0.0.7:5", (("bastion", 0), ("10.0.0.7", 5))),
        ("[2001:db8::1]:5,2001:db8::2:6", (("2001:db8::1", 5), ("2001:db8::2", 6))),
        ("bastion", None),
        ("bastion:", None),
        ("bastion:-1", None),
        ("bastion:2147483648", None),
        (":5", None),
        ("bast ion:5", None),
        ("a:1,,b:2", None),
    ],
)
def test_an_override_is_a_host_or_an_address_and_a_number(
    text: str, overrides: tuple[tuple[str, int], ...] | None
) -> None:
    setting = f"max.connections.per.ip.overrides={text}"
    if overrides is None:
        with pytest.raises(ConfigError, match="a list of host:count"):
            room_of(setting)
    else:
        assert room_of(setting).max_connections_per_ip_overrides == overrides


def test_there_are_two_modes() -> None:
    assert room_of("ip.throttle.mode=kafka").ip_throttle_mode == "kafka"
    with pytest.raises(ConfigError, match="one of kafka, kip"):
        room_of("ip.throttle.mode=drop")


def test_any_number_of_connections_may_be_throttled_at_once() -> None:
    assert room_of().max_throttled_connections == 1_000
    assert room_of("max.throttled.connections=0").max_throttled_connections == 0
    for text in ("-1", "2147483648"):
        with pytest.raises(ConfigError, match=r"max\.throttled\.connections"):
            room_of(f"max.throttled.connections={text}")


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", ()),
        ("alice:100,bob:5", (("alice", 100), ("bob", 5))),
        (" alice : 100 , bob:0 ", (("alice", 100), ("bob", 0))),
        ("CN=ann,OU=ops,C=DE:7,bob:5", (("CN=ann,OU=ops,C=DE", 7), ("bob", 5))),
        ("urn:x:ann:7", (("urn:x:ann", 7),)),
        ("a:1:2,b:5", (("a:1", 2), ("b", 5))),
        ("a,:3", (("a,", 3),)),
    ],
)
def test_users_may_have_commas_and_colons_in_their_names(
    text: str, overrides: tuple[tuple[str, int], ...]
) -> None:
    section = room_of(f"max.connections.per.user.overrides={text}")
    assert section.max_connections_per_user_overrides == overrides
    written = ",".join(f"{user}:{count}" for user, count in overrides)
    again = room_of(f"max.connections.per.user.overrides={written}")
    assert again.max_connections_per_user_overrides == overrides


@pytest.mark.parametrize(
    "text", ["alice", "alice:", ":5", "alice:-1", "alice:5,", "alice:5,alice:6", "alice:2147483648", "a:5,b"]
)
def test_overrides_of_users_that_say_nothing_clear_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.user\.overrides"):
        room_of(f"max.connections.per.user.overrides={text}")


@pytest.mark.parametrize(
    ("key", "least", "below"),
    [("max.connections.per.user", "0", "-1"), ("max.connection.creation.rate.per.user", "0.01", "0.0099")],
)
def test_a_user_may_have_no_connection_but_not_none_a_second(key: str, least: str, below: str) -> None:
    for text in (f"{key}={least}", f"{key}.overrides=alice:{least}"):
        room_of(text)
    for text in (f"{key}={below}", f"{key}.overrides=alice:{below}"):
        with pytest.raises(ConfigError, match=key):
            room_of(text)


@pytest.mark.parametrize(("text", "rate"), [("0.1", 0.1), ("20", 20), ("2.0", 2), ("2147483647", 2**31 - 1)])
def test_a_user_may_have_a_part_of_a_connection_a_second(text: str, rate: float) -> None:
    key = "max.connection.creation.rate.per.user"
    section = room_of(f"{key}={text}", f"{key}.overrides=CN=a:b,alice:{text}")
    assert section.max_creation_rate_per_user == rate
    assert section.max_creation_rate_per_user_overrides == (("CN=a:b,alice", rate),)
    assert RATE.write(section.max_creation_rate_per_user) == f"{rate:.15g}"


@pytest.mark.parametrize("text", ["2147483648", "0", "-1", "1_0", "0.1.2", ".", "nan"])
def test_a_rate_of_users_that_is_no_rate_is_refused(text: str) -> None:
    key = "max.connection.creation.rate.per.user"
    for line in (f"{key}={text}", f"{key}.overrides=alice:{text}"):
        with pytest.raises(ConfigError, match=key):
            room_of(line)


@pytest.mark.parametrize(
    "text",
    ["a" + "\t" * 32_000 + ":x", "\t" * 32_000, ":" * 32_000, "a:" * 16_000, "," * 32_000, "a:1 x" * 6_000],
)
def test_overrides_of_users_that_a_pattern_would_search_for_seconds_are_refused(text: str) -> None:
    """A pattern took 1.5 s for the first of these; tests/test_longest_text.py has the time."""
    with pytest.raises(ValueError, match=r"no |twice"):
        users_with(RATE).read(text)
