"""File, command line and environment together."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.config.listeners import Address
from broker.config.load import Configuration, build_config, load
from broker.config.sections import LogConfig, SecurityConfig
from broker.config.setting import settings_of
from broker.config.table import SECTION_TYPES, SETTINGS, SPELLINGS, BrokerConfig, setting_of
from broker.config.unknown_keys import hint
from broker.network.processor import NEW_CONNECTIONS
from tests.controller.world import AUTHORIZER


def from_file(tmp_path: Path, text: str, *overrides: str, **environ: str) -> Configuration:
    path = tmp_path / "server.properties"
    path.write_text(text, encoding="utf-8")
    return load(path, overrides, environ)


def test_nothing_set_gives_every_section_its_defaults() -> None:
    configuration = load(None, [], {})
    security = replace(SecurityConfig(), local_listeners=frozenset({"PLAINTEXT"}))
    assert configuration.config == BrokerConfig(security=security)
    assert configuration.warnings == ()
    assert configuration.static == {}


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    configuration = from_file(tmp_path, "num.partitions=3\nnum.io.threads=2", "num.partitions=5")
    assert configuration.config.topics.num_partitions == 5
    assert configuration.config.network.num_io_threads == 2


def test_the_later_line_of_a_file_wins(tmp_path: Path) -> None:
    assert from_file(tmp_path, "num.partitions=3\nnum.partitions=4").config.topics.num_partitions == 4


def test_a_kraft_quickstart_file_starts_with_warnings_only(tmp_path: Path) -> None:
    text = (
        "process.roles=broker\nnode.rack=a\nnode.id=7\nlisteners=PLAINTEXT://localhost:9092\n"
        "log.dirs=/tmp/x, /tmp/y\nlog.retention.hours=1\n"
    )
    configuration = from_file(tmp_path, text)
    assert configuration.config.broker.node_id == 7
    assert configuration.config.log.dirs == ("/tmp/x", "/tmp/y")
    assert configuration.config.topic_settings.retention_ms == 3_600_000
    (warning,) = configuration.warnings
    assert warning == f"{tmp_path}/server.properties line 2: unknown key node.rack; it is ignored"


@pytest.mark.parametrize(
    ("cordoned", "directories"),
    [("", ""), ("*", "ab"), ("/a", "a"), ("/b/", "b"), ("/b,/x/../a", "ab"), ("/a,/a", "a")],
)
def test_directories_are_cordoned(cordoned: str, directories: str) -> None:
    log = load(None, ["log.dirs=/a,/b", f"cordoned.log.dirs={cordoned}"], {}).config.log
    assert [each for each in "ab" if log.is_cordoned(f"/{each}")] == list(directories)
    assert log.are_all_cordoned is (directories == "ab")


@pytest.mark.parametrize(
    ("cordoned", "allowed"),
    [
        ("/c", "directories of log.dirs"),
        ("/a,/c", "directories of log.dirs"),
        ("a", "directories of log.dirs"),
        ("*,/a", "* only without other directories"),
    ],
)
def test_only_directories_of_the_log_are_cordoned(cordoned: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, ["log.dirs=/a,/b", f"cordoned.log.dirs={cordoned}"], {})
    assert (caught.value.key, caught.value.value, caught.value.allowed) == (
        "cordoned.log.dirs",
        cordoned,
        allowed,
    )


def test_an_unknown_key_names_the_nearest_known_one() -> None:
    (warning,) = load(None, ["num.partition=3"], {}).warnings
    assert warning == "--override: unknown key num.partition; it is ignored (did you mean num.partitions?)"


@pytest.mark.parametrize("override", ["", "num.partitions", "=3"])
def test_an_override_needs_a_key_and_an_equals_sign(override: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        load(None, [override], {})


@pytest.mark.parametrize("key", ["plain.sasl.jaas.config", "plain.sasl.jaas.confg"])
def test_a_suggestion_for_a_listener_key_has_its_prefix(key: str) -> None:
    assert hint(key) == " (did you mean listener.name.<name>.plain.sasl.jaas.config?)"


def test_no_suggestion_is_the_unknown_key_itself() -> None:
    unknown = [key for key in SPELLINGS if setting_of(key) is None]
    assert unknown
    assert [key for key in unknown if f" {key}?" in hint(key)] == []


def test_an_override_may_hold_more_equals_signs_and_be_empty() -> None:
    config = load(None, ["console.listener=", "super.users=User:a=b;User:c"], {}).config
    assert config.console.listener is None
    assert config.security.super_users == ("User:a=b", "User:c")


def test_a_bad_value_names_key_value_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, ["socket.request.max.bytes=0"], {})
    assert str(caught.value) == (
        "socket.request.max.bytes='0' is not allowed: a whole number from 1 to 2147483647"
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("log.retention.hours=24x", "log.retention.hours='24x' is not allowed: "
         "a whole number from -1 to 2562047788015"),
        ("log.roll.hours=0x", "log.roll.hours='0x' is not allowed: a whole number from 1 to 2562047788015"),
        ("num.partitions=24x", "num.partitions='24x' is not allowed: a whole number from 1 to 10000"),
        ("broker.id = -1", "broker.id='-1' is not allowed: a whole number from 0 to 2147483647"),
        ("queued.max.request.bytes=99", "queued.max.request.bytes=99 is not allowed: -1 (off), or at least "
         "socket.request.max.bytes (104857600)"),
        ("listeners=SSL://:1,SSL://:2", "listeners='SSL://:1,SSL://:2' is not allowed: "
         "each listener name once"),
    ],
)  # fmt: skip
def test_a_bad_value_of_a_file_names_file_and_line_and_keeps_the_warnings(
    tmp_path: Path, line: str, words: str
) -> None:
    """The error names the line of the last assignment."""
    key = line.partition("=")[0].strip()
    text = f"{key}=7\nno.such.key=1\n\n{line}\nfollower.replication.throttled.rate=1\n"
    with pytest.raises(ConfigError) as caught:
        from_file(tmp_path, text)
    file = tmp_path / "server.properties"
    assert str(caught.value) == f"{file} line 4: {words}"
    unknown, inert = caught.value.warnings
    assert unknown == f"{file} line 2: unknown key no.such.key; it is ignored"
    assert inert.startswith(f"{file} line 5: follower.replication.throttled.rate has no effect: ")


@pytest.mark.parametrize(("hours", "allowed"), [(2562047788015, True), (2562047788016, False)])
def test_the_range_of_a_coarser_spelling_is_reported_in_its_own_unit(hours: int, allowed: bool) -> None:
    values = {"log.retention.hours": str(hours)}
    if allowed:
        assert build_config(values).topic_settings.retention_ms == hours * 3_600_000
    else:
        with pytest.raises(ConfigError, match=r"from -1 to 2562047788015$"):
            build_config(values)


def test_a_bad_escape_and_a_bad_byte_name_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with pytest.raises(ConfigError) as caught:
        from_file(tmp_path, "a=1\nlog.dirs=/\\u12x4\n")
    assert str(caught.value).startswith(f"{file} line 2: ")
    file.write_bytes(b"a=1\n\nlog.dirs=/tmp/\xff\n")
    with pytest.raises(ConfigError) as caught:
        load(file, [], {})
    assert str(caught.value) == f"{file} line 3: byte=b'\\xff' is not allowed: UTF-8 text"


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"log.dirs=/tmp/\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(path, [], {})


def test_a_byte_order_mark_is_not_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(b"\xef\xbb\xbfnum.partitions=3")
    assert load(path, [], {}).config.topics.num_partitions == 3


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent", [], {})


# Spellings


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "0"}, 0),
    ],
)
def test_the_finer_spelling_wins_and_minus_one_is_never(values: dict[str, str], expected: int) -> None:
    assert build_config(values).topic_settings.retention_ms == expected


@pytest.mark.parametrize(
    "override", ["log.roll.hours=0", "log.retention.hours=1.5", "log.retention.hours=9223372036854775807"]
)
def test_a_coarse_spelling_out_of_range_is_refused_by_its_own_name(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [override], {})
    assert caught.value.key == override.partition("=")[0]


def test_older_spellings_are_read() -> None:
    config = build_config({"broker.id": "9", "log.dir": "/tmp/z"})
    assert (config.broker.node_id, config.log.dirs) == (9, ("/tmp/z",))


# Rules between keys


@pytest.mark.parametrize(
    ("pool", "allowed"), [("-1", True), ("0", True), ("99", False), ("100", True), ("101", True)]
)
def test_the_memory_pool_holds_at_least_one_request(pool: str, allowed: bool) -> None:
    values = {"socket.request.max.bytes": "100", "queued.max.request.bytes": pool}
    if allowed:
        assert build_config(values).network.queued_max_request_bytes == int(pool)
    else:
        with pytest.raises(ConfigError, match=r"queued\.max\.request\.bytes"):
            build_config(values)


@pytest.mark.parametrize(("delay", "allowed"), [("99", True), ("100", False), ("101", False)])
def test_the_failed_login_delay_is_less_than_the_idle_time(delay: str, allowed: bool) -> None:
    values = {"connections.max.idle.ms": "100", "connection.failed.authentication.delay.ms": delay}
    if allowed:
        assert build_config(values).network.connection_failed_authentication_delay_ms == 99
    else:
        with pytest.raises(ConfigError):
            build_config(values)


@pytest.mark.parametrize("never", ["-1", "-2", "-9223372036854775808"])
def test_a_negative_idle_time_is_never_and_bounds_no_delay(never: str) -> None:
    """Kafka: KafkaConfig.validateValues compares the two only where the idle time is 0 or more."""
    values = {"connections.max.idle.ms": never, "connection.failed.authentication.delay.ms": "2147483647"}
    assert build_config(values).network.connections_max_idle_ms == int(never)


@pytest.mark.parametrize(("idle", "allowed"), [("0", False), ("1", True)])
def test_an_idle_time_of_0_is_less_than_any_delay(idle: str, allowed: bool) -> None:
    values = {"connections.max.idle.ms": idle, "connection.failed.authentication.delay.ms": "0"}
    if allowed:
        assert build_config(values).network.connections_max_idle_ms == 1
    else:
        with pytest.raises(ConfigError, match=r"less than connections\.max\.idle\.ms \(0\)"):
            build_config(values)


@pytest.mark.parametrize(("low", "allowed"), [("99", True), ("100", True), ("101", False)])
def test_the_least_session_time_out_is_not_above_the_most(low: str, allowed: bool) -> None:
    values = {"group.max.session.timeout.ms": "100", "group.min.session.timeout.ms": low}
    if allowed:
        assert build_config(values).groups.min_session_timeout_ms == int(low)
    else:
        with pytest.raises(ConfigError):
            build_config(values)


# Listeners with users


def test_a_listeners_users_are_read_by_its_name_and_are_not_printed() -> None:
    configuration = load(
        None,
        [
            "listeners=SASL_PLAINTEXT://127.0.0.1:9093",
            'listener.name.sasl_plaintext.plain.sasl.jaas.config=module required user_alice="hush";',
        ],
        {},
    )
    assert configuration.config.security.plain_jaas == (
        ("SASL_PLAINTEXT", 'module required user_alice="hush";'),
    )
    assert "hush" not in repr(configuration.config)
    assert configuration.warnings == ()


@pytest.mark.parametrize(
    "key", ["plain.sasl.jaas.config", "listener.name.x.num.partitions", "listener.name.plain.sasl"]
)
def test_listener_keys_need_their_prefix_and_other_keys_refuse_it(key: str) -> None:
    (warning,) = load(None, [f"{key}=1"], {}).warnings
    assert f"unknown key {key};" in warning


def test_doubtful_listeners_are_warned_about() -> None:
    warnings = load(
        None,
        [
            "listeners=PLAINTEXT://:9092,SASL_PLAINTEXT://127.0.0.1:9093",
            "listener.name.other.plain.sasl.jaas.config=x",
            "console.listener=0.0.0.0:80",
        ],
        {},
    ).warnings
    assert warnings == (
        "clients cannot log in on the listener SASL_PLAINTEXT: "
        "listener.name.sasl_plaintext.plain.sasl.jaas.config is not set",
        "the listener PLAINTEXT://:9092 is not encrypted, and other machines can reach it",
        "the console at 0.0.0.0:80 is not encrypted, and other machines can reach it",
        "listener.name.other.plain.sasl.jaas.config is set, but there is no such listener",
    )


# Administration through the Kafka protocol


@pytest.mark.parametrize(
    ("listener", "role"),
    [
        ("PLAINTEXT://127.0.0.1:9092", "admin"),
        ("PLAINTEXT://localhost:9092", "admin"),
        ("PLAINTEXT://[::1]:9092", "admin"),
        ("PLAINTEXT://127.0.0.1.evil.example:9092", "viewer"),
        ("PLAINTEXT://0.0.0.0:9092", "viewer"),
        ("PLAINTEXT://:9092", "viewer"),
        ("PLAINTEXT://[::]:9092", "viewer"),
        ("PLAINTEXT://10.0.0.7:9092", "viewer"),
        ("SSL://127.0.0.1:9092", "viewer"),
        ("SASL_PLAINTEXT://127.0.0.1:9092", "viewer"),
        ("SASL_SSL://127.0.0.1:9092", "viewer"),
    ],
)
def test_unset_the_wire_role_is_admin_on_a_plain_loopback_listener_only(listener: str, role: str) -> None:
    name = listener.partition(":")[0]
    config = build_config({"listeners": listener, "advertised.listeners": f"{name}://h:1"})
    assert config.security.role_on(name) == role


def test_a_wire_role_that_is_set_holds_on_every_listener_that_has_none_of_its_own() -> None:
    listeners = "PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093"
    both = build_config({"listeners": listeners, "wire.role": "editor"}).security
    assert (both.role_on("PLAINTEXT"), both.role_on("SASL_PLAINTEXT")) == ("editor", "editor")
    own = {"listener.name.sasl_plaintext.wire.role": "admin"}
    one = build_config({"listeners": listeners, **own}).security
    assert (one.role_on("PLAINTEXT"), one.role_on("SASL_PLAINTEXT")) == ("admin", "admin")
    other = build_config({"listeners": listeners, "wire.role": "viewer", **own}).security
    assert (other.role_on("PLAINTEXT"), other.role_on("SASL_PLAINTEXT")) == ("viewer", "admin")


def test_a_listener_that_is_added_while_the_broker_runs_has_the_role_of_its_address() -> None:
    configuration = load(None, ["listeners=PLAINTEXT://127.0.0.1:9092"], {})
    listeners = "PLAINTEXT://127.0.0.1:9092,OUT://10.0.0.7:9093"
    more = {"listeners": listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT"}
    security = configuration.with_dynamic(more).security
    assert (security.role_on("PLAINTEXT"), security.role_on("OUT")) == ("admin", "viewer")


def administration_warnings(*settings: str) -> list[str]:
    warnings = load(None, ["advertised.listeners=", *settings], {}).warnings
    return [line for line in warnings if "administrator" in line or "an editor" in line]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["listeners=PLAINTEXT://127.0.0.1:9092"], None),
        (["listeners=PLAINTEXT://127.0.0.1:9092", "wire.role=admin"], None),
        (["listeners=PLAINTEXT://10.0.0.7:9092"], None),
        (["listeners=PLAINTEXT://10.0.0.7:9092", "wire.role=viewer"], None),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "wire.role=admin"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "wire.role=admin makes every client an administrator",
        ),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "wire.role=editor"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "wire.role=editor makes every client an editor of quotas and topics",
        ),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "listener.name.plaintext.wire.role=admin"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "listener.name.plaintext.wire.role=admin makes every client an administrator",
        ),
        (["listeners=PLAINTEXT://10.0.0.7:9092", "wire.role=admin", AUTHORIZER], None),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "super.users=User:ANONYMOUS", AUTHORIZER],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "super.users=User:ANONYMOUS makes every client an administrator",
        ),
        (["listeners=PLAINTEXT://10.0.0.7:9092", "super.users=User:ops"], None),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "super.users=User:ops;User:ANONYMOUS"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "super.users=User:ANONYMOUS makes every client an administrator",
        ),
        (
            ["listeners=PLAINTEXT://10.0.0.7:9092", "wire.role=admin", "ssl.client.auth=required"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "wire.role=admin makes every client an administrator",
        ),
        (
            ["listeners=SSL://10.0.0.7:9092", "wire.role=admin"],
            "other machines can reach the listener SSL without authentication, and "
            "wire.role=admin makes every client an administrator",
        ),
        (
            ["listeners=SSL://10.0.0.7:9092", "wire.role=admin", "ssl.client.auth=required"],
            "other machines can reach the listener SSL, and wire.role=admin makes every user who "
            "logs in an administrator",
        ),
        (
            ["listeners=SASL_SSL://10.0.0.7:9092", "wire.role=admin", "super.users=User:ANONYMOUS"],
            "other machines can reach the listener SASL_SSL, and wire.role=admin makes every user "
            "who logs in an administrator",
        ),
        (
            ["proxy.protocol=require", "proxy.protocol.trusted.addresses=127.0.0.1", "wire.role=admin"],
            "other machines can reach the listener PLAINTEXT without authentication, and "
            "wire.role=admin makes every client an administrator",
        ),
    ],
)
def test_administration_that_is_open_to_the_network_is_one_warning_that_names_the_key(
    settings: list[str], words: str | None
) -> None:
    assert administration_warnings(*settings) == ([] if words is None else [words])


# The console's public URL


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", ""),
        ("http://weir.example", "http://weir.example"),
        ("https://Weir.Example:8443/", "https://weir.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[2001:db8::7]:8080", "http://[2001:db8::7]:8080"),
        ("https://weir.example:65535", "https://weir.example:65535"),
    ],
)
def test_the_public_url_is_a_scheme_and_a_host(text: str, url: str) -> None:
    assert build_config({"console.public.url": text}).console.public_url == url


@pytest.mark.parametrize(
    "text",
    [
        "weir.example",
        "ftp://weir.example",
        "https://",
        "https://:8080",
        "https://weir.example:",
        "https://weir.example:65536",
        "https://weir.example:x",
        "https://weir.example/console",
        "https://weir.example?x",
        "https://weir.example#x",
        "https://user@weir.example",
        "https://weir example",
        "https://wéir.example",
    ],
)
def test_an_invalid_public_url_stops_the_start(text: str) -> None:
    with pytest.raises(ConfigError, match=r"console\.public\.url") as caught:
        build_config({"console.public.url": text})
    assert "https://host" in caught.value.allowed


# The administrator's token


def test_the_token_comes_from_the_environment_and_is_not_printed() -> None:
    configuration = load(None, [], {"WEIR_ADMIN_TOKEN": "a-token-of-good-length"})
    assert configuration.config.security.admin_token == "a-token-of-good-length"
    assert "a-token-of" not in repr(configuration)
    assert configuration.warnings == ()


def test_the_token_comes_from_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-good-length\n")
    configuration = load(None, [], {"WEIR_ADMIN_TOKEN_FILE": str(tmp_path / "token")})
    assert configuration.config.security.admin_token == "a-token-of-good-length"


@pytest.mark.parametrize(("length", "warned"), [(15, True), (16, False), (17, False)])
def test_a_short_token_is_warned_about(length: int, warned: bool) -> None:
    assert bool(load(None, [], {"WEIR_ADMIN_TOKEN": "x" * length}).warnings) is warned


def test_the_warning_names_where_the_short_token_comes_from(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    words = "has fewer than 16 characters and can be guessed"
    assert load(None, [], {"WEIR_ADMIN_TOKEN": "short"}).warnings == (f"WEIR_ADMIN_TOKEN {words}",)
    from_file = load(None, [], {"WEIR_ADMIN_TOKEN_FILE": str(tmp_path / "token")})
    assert from_file.warnings == (f"the token in WEIR_ADMIN_TOKEN_FILE {words}",)


@pytest.mark.parametrize(("length", "allowed"), [(511, True), (512, True), (513, False)])
def test_a_token_is_at_most_512_characters_long(length: int, allowed: bool) -> None:
    if allowed:
        assert load(None, [], {"WEIR_ADMIN_TOKEN": "x" * length}).config.security.admin_token == "x" * length
    else:
        with pytest.raises(ConfigError):
            load(None, [], {"WEIR_ADMIN_TOKEN": "x" * length})


@pytest.mark.parametrize("token", ["with space in it", "naïve-token-of-length", "line\nbreak-in-the-token"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [], {"WEIR_ADMIN_TOKEN": token})
    assert token not in str(caught.value)


def test_two_tokens_an_empty_file_or_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for environ in (
        {"WEIR_ADMIN_TOKEN": "x" * 20, "WEIR_ADMIN_TOKEN_FILE": str(tmp_path / "empty")},
        {"WEIR_ADMIN_TOKEN_FILE": str(tmp_path / "empty")},
        {"WEIR_ADMIN_TOKEN_FILE": str(tmp_path / "absent")},
    ):
        with pytest.raises(ConfigError):
            load(None, [], environ)


def test_empty_variables_are_no_token() -> None:
    assert (
        load(None, [], {"WEIR_ADMIN_TOKEN": "", "WEIR_ADMIN_TOKEN_FILE": ""}).config.security.admin_token
        is None
    )


# Dynamic settings


def test_dynamic_settings_lie_over_static_ones_and_keep_the_token() -> None:
    configuration = load(None, ["log.retention.ms=5", "num.partitions=3"], {"WEIR_ADMIN_TOKEN": "x" * 20})
    config = configuration.with_dynamic({"log.retention.ms": "6"})
    assert config.topic_settings.retention_ms == 6
    assert config.topics.num_partitions == 3
    assert config.security.admin_token == "x" * 20
    assert configuration.config.topic_settings.retention_ms == 5


def test_a_constant_that_some_texts_call_a_key_is_told_to_be_one() -> None:
    """Z14: S3 has queued.max.connections in a properties file; Kafka has Processor.ConnectionQueueSize."""
    assert "queued.max.connections" not in SPELLINGS
    assert load(None, ["queued.max.connections=30"], {}).warnings == (
        "--override: unknown key queued.max.connections; it is ignored (a constant in Kafka, not a key: "
        f"{NEW_CONNECTIONS} accepted connections can wait for each processor; max.connections "
        "limits the open connections)",
    )


@pytest.mark.parametrize(
    ("key", "entity", "option"),
    [
        ("max.connection.creation.rate.per.ip", "the ip entity's default", "--ip-defaults"),
        ("max.connection.creation.rate.per.ip.overrides", "the ip entity of each address", "--ip ADDRESS"),
    ],
)
def test_a_key_that_kip_612_rejected_is_ignored_with_the_quota_that_there_is_instead(
    key: str, entity: str, option: str
) -> None:
    (warning,) = load(None, [f"{key}=7"], {}).warnings
    assert warning == (
        f"--override: unknown key {key}; it is ignored (KIP-612 rejected this key: set the quota "
        f"connection_creation_rate of {entity}, such as by kafka-configs.sh --alter {option} "
        "--add-config connection_creation_rate=20)"
    )


@pytest.mark.parametrize(
    ("misnomer", "real"),
    [
        ("connection.creation.rate.limit", "max.connection.creation.rate"),
        ("connection.creation.rate.window.ms", "quota.window.size.seconds"),
        ("queued.max.request.size", "queued.max.requests.size.bytes"),
        ("queued.max.bytes", "queued.max.request.bytes"),
    ],
)
def test_z14_a_key_that_only_texts_have_is_ignored_with_the_name_of_the_real_one(
    misnomer: str, real: str
) -> None:
    assert real in SETTINGS and misnomer not in SPELLINGS
    configuration = load(None, [f"{misnomer}=7"], {})
    assert (
        f"--override: unknown key {misnomer}; it is ignored (Kafka calls it {real})" in configuration.warnings
    )
    assert configuration.static == {}


# The table


def test_every_field_of_every_section_has_a_key_and_every_key_one_section() -> None:
    keys = [setting.key for section in SECTION_TYPES.values() for _, setting in settings_of(section)]
    assert sorted(keys) == sorted(SETTINGS)
    spellings = [key for setting in SETTINGS.values() for key, _ in setting.spellings]
    assert len(spellings) == len(set(spellings)) == len(SPELLINGS)


def test_every_default_is_allowed_and_reads_back_from_its_text() -> None:
    for key, setting in SETTINGS.items():
        if setting.per_listener:
            assert setting.default == (), key
        elif setting.default is None:
            assert setting.default_words != "nothing", key
        else:
            text = setting.write(setting.default)
            assert text is not None and setting.read(text) == setting.default, key


def test_every_key_of_ours_that_differs_from_kafkas_says_why() -> None:
    for key, setting in SETTINGS.items():
        assert (setting.kafka_default is None) == (setting.why is None), key
        assert not (setting.ours and setting.kafka_default), key
        assert setting.doc.endswith("."), key


def test_a_section_can_be_constructed_directly(tmp_path: Path) -> None:
    assert LogConfig(dirs=(str(tmp_path),)).max_open_files == 512
    assert BrokerConfig().console.listener == Address("127.0.0.1", 8080)


# Keys without effect


@pytest.mark.parametrize(
    "key",
    [
        "delete.records.purgatory.purge.interval.requests",
        "share.coordinator.threads",
        "follower.replication.throttled.rate",
    ],
)
def test_a_key_without_effect_is_accepted_with_a_warning_that_says_why(tmp_path: Path, key: str) -> None:
    reason = SETTINGS[key].inert
    assert reason
    configuration = from_file(tmp_path, f"num.partitions=3\n{key}=7")
    assert configuration.static[key] == "7"
    assert configuration.warnings == (f"{tmp_path}/server.properties line 2: {key} has no effect: {reason}",)
    assert load(None, [f"{key}=7"], {}).warnings == (f"--override: {key} has no effect: {reason}",)


def test_keys_with_effect_are_not_warned_of() -> None:
    keys = ("producer.id.expiration.check.interval.ms", "leader.replication.throttled.rate")
    assert load(None, [f"{key}=7" for key in keys], {}).warnings == ()


@pytest.mark.parametrize("value", ["", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"])
def test_an_authorizer_is_off_or_kafkas(value: str) -> None:
    security = build_config({"authorizer.class.name": value}).security
    assert security.authorizer_class_name == value
    assert not security.allow_everyone_if_no_acl_found


def test_another_authorizer_stops_the_start() -> None:
    with pytest.raises(
        ConfigError, match=r"authorizer\.class\.name='kafka\.security\.authorizer\.AclAuthorizer' is not"
    ):
        build_config({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})


@pytest.mark.parametrize(
    "value",
    [
        *("ops", "User:", ":ops", "User:ops;ops", "User: ops"),
        # What a trim would make another principal, or what shows as another one.
        *(
            "User:ops\u00a0",
            "User:a;User:ops\u3000;User:b",
            "User:o\u200bps",
            "User:ops\u2028",
            "\u00a0User:ops",
        ),
    ],
)
def test_a_super_user_is_a_principal(value: str) -> None:
    with pytest.raises(ConfigError, match=r"super\.users="):
        build_config({"super.users": value})


# Balancers


PROXY_TRUSTED = "proxy.protocol.trusted.addresses"


@pytest.mark.parametrize("prefix", ["", "listener.name.plaintext.", "console."])
def test_a_balancer_needs_trusted_addresses(prefix: str) -> None:
    bare = "console.proxy.protocol.trusted.addresses" if prefix == "console." else PROXY_TRUSTED
    for mode in ("accept", "require"):
        with pytest.raises(ConfigError, match=re.escape(bare)) as caught:
            build_config({f"{prefix}proxy.protocol": mode})
        assert f"proxy.protocol={mode}" in caught.value.allowed
        build_config({f"{prefix}proxy.protocol": mode, f"{prefix}proxy.protocol.trusted.addresses": "::1"})
    build_config({f"{prefix}proxy.protocol": "none"})


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("proxy.protocol", "v2", "one of none, accept, require"),
        ("listener.name.plaintext.proxy.protocol", "Require", "one of none, accept, require"),
        ("console.proxy.protocol", "on", "one of none, accept, require"),
        (PROXY_TRUSTED, "balancer", "a list of addresses and networks"),
        (PROXY_TRUSTED, "10.0.0.1/33", "a list of addresses and networks"),
        (PROXY_TRUSTED, "10.0.0.1/8", "a list of addresses and networks"),
        (PROXY_TRUSTED, "::ffff:10.0.0.1", "a list of addresses and networks"),
        (PROXY_TRUSTED, "::ffff:10.0.0.0/104", "a list of addresses and networks"),
        (PROXY_TRUSTED, "10.0.0.1,,10.0.0.2", "a list of addresses and networks"),
        ("console.proxy.protocol.trusted.addresses", "::1/129", "a list of addresses and networks"),
        ("console.forwarded.for.trusted.addresses", "1", "a list of addresses and networks"),
    ],
)
def test_an_invalid_key_of_a_balancer_is_named_with_what_is_allowed(
    key: str, value: str, allowed: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(key)) as caught:
        build_config({key: value})
    assert caught.value.allowed.startswith(allowed)


def test_a_listeners_own_balancers_win_over_the_common_ones() -> None:
    network = build_config(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092,SSL://127.0.0.1:9093",
            "proxy.protocol": "require",
            PROXY_TRUSTED: "10.0.0.7,10.1.0.0/16,2001:db8::/32",
            "listener.name.ssl.proxy.protocol": "none",
        }
    ).network
    assert network.for_listener("SSL").proxy_protocol == "none"
    own = network.for_listener("PLAINTEXT")
    assert own.proxy_protocol == "require"
    assert [str(each) for each in own.proxy_protocol_trusted_addresses] == [
        "10.0.0.7/32",
        "10.1.0.0/16",
        "2001:db8::/32",
    ]


@pytest.mark.parametrize(("mode", "role"), [("none", "admin"), ("accept", "viewer"), ("require", "viewer")])
def test_behind_a_balancer_of_this_machine_clients_do_not_administer(mode: str, role: str) -> None:
    security = build_config({"proxy.protocol": mode, PROXY_TRUSTED: "127.0.0.1"}).security
    assert security.role_on("PLAINTEXT") == role
