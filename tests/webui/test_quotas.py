"""The command that does the same as an edit, and the id of a rule, in letters that a path may hold."""

import shlex
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.broker import ServerInfo
from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.quotas import BadId, entity_of, id_of, kafka_configs, plain, shell_command

SET = QuotaOp("producer_byte_rate", 1_048_576)
START = "kafka-configs.sh --bootstrap-server h:9092 --alter"


@pytest.mark.parametrize(
    ("entity", "rest"),
    [
        ((("user", "alice"),), "--entity-type users --entity-name alice"),
        ((("client-id", None),), "--entity-type clients --entity-default"),
        (
            (("user", None), ("client-id", "app")),
            "--entity-type users --entity-default --entity-type clients --entity-name app",
        ),
        ((("ip", "10.0.0.7"),), "--entity-type ips --entity-name 10.0.0.7"),
    ],
)
def test_the_entity_is_named_as_kafkas_tool_wants_it(entity: EntityPairs, rest: str) -> None:
    assert (
        kafka_configs(ClientEndpoint("h:9092"), entity, [SET])
        == f"{START} --add-config producer_byte_rate=1048576 {rest}"
    )


@pytest.mark.parametrize(
    ("ops", "rest"),
    [
        (
            [SET, QuotaOp("request_percentage", 12.5)],
            "--add-config producer_byte_rate=1048576,request_percentage=12.5",
        ),
        ([QuotaOp("consumer_byte_rate", None)], "--delete-config consumer_byte_rate"),
        (
            [SET, QuotaOp("consumer_byte_rate", None), QuotaOp("request_percentage", None)],
            "--add-config producer_byte_rate=1048576 --delete-config consumer_byte_rate,request_percentage",
        ),
    ],
)
def test_limits_are_set_and_removed_in_one_command(ops: list[QuotaOp], rest: str) -> None:
    command = kafka_configs(ClientEndpoint("h:9092"), (("user", "a"),), ops)
    assert command == f"{START} {rest} --entity-type users --entity-name a"


def test_nothing_to_do_is_no_command() -> None:
    assert kafka_configs(ClientEndpoint("h:9092"), (("user", "a"),), []) == ""


@pytest.mark.parametrize(
    "name", ["user with spaces", "it's", "$(reboot)", "`id`; rm -rf /", "-x", "a\nb", "<default>", "\\", ""]
)
def test_any_client_id_stays_one_word_of_the_shell(name: str) -> None:
    words = shlex.split(kafka_configs(ClientEndpoint("h:9092"), (("client-id", name),), [SET]))
    assert words[-2:] == ["--entity-name", name]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (1e15, "1000000000000000"),
        (0.5, "0.5"),
        (50.55, "50.55"),
        (1e-7, "0.0000001"),
        (2.0**62, "4611686018427387904"),
    ],
)
def test_values_have_no_exponent_and_no_needless_fraction(value: float, text: str) -> None:
    assert plain(value) == text


def test_settings_unknown_to_kafka_get_a_command_of_the_brokers_own_tool() -> None:
    entity: EntityPairs = (("user", "al ice"), ("client-id", None))
    limit = QuotaOp("producer_byte_rate", 5.0)
    kafka = (
        "kafka-configs.sh --bootstrap-server b:1 --alter --add-config producer_byte_rate=5 "
        "--entity-type users --entity-name 'al ice' --entity-type clients --entity-default"
    )
    info = ServerInfo(1, "weir 1", (ClientEndpoint("b:1"),), "http://weir-1.localhost:1/")
    weir = "weir quotas --console http://weir-1.localhost:1 set --user 'al ice' --client-id-default"
    assert shell_command(info, QuotaAlteration(entity, (limit,))) == kafka
    assert shell_command(info, QuotaAlteration(entity, (), shadow=True)) == f"{weir} --shadow"
    both = QuotaAlteration(entity, (limit,), shadow=False)
    assert shell_command(info, both) == f"{kafka} && {weir} --enforce"


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ((("user", "alice"),), "user=alice"),
        ((("user", None),), "user"),
        ((("client-id", "app"),), "client-id=app"),
        ((("user", "alice"), ("client-id", None)), "user=alice,client-id"),
        ((("user", None), ("client-id", "app")), "user,client-id=app"),
        ((("ip", "10.0.0.7"),), "ip=10.0.0.7"),
        ((("ip", "fe80::1"),), "ip=fe80::1"),
        ((("user", "User:a@b-c_d.e"),), "user=User:a@b-c_d.e"),
        ((("user", "a/b,c=d~%? "),), "user=a~2fb~2cc~3dd~7e~25~3f~20"),
        ((("user", "ä😀"),), "user=~c3~a4~f0~9f~98~80"),
        ((("client-id", "<default>"),), "client-id=~3cdefault~3e"),
        ((("user", ".."),), "user=.."),
    ],
)
def test_an_entity_and_its_id(entity: EntityPairs, text: str) -> None:
    assert id_of(entity) == text and entity_of(text) == entity


@given(
    user=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    client_id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_every_name_comes_back_and_needs_no_other_escape(user: str | None, client_id: str | None) -> None:
    entity: EntityPairs = (("user", user), ("client-id", client_id))
    text = id_of(entity)
    assert entity_of(text) == entity
    assert quote(text, safe="=,:@") == text and unquote(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "alice",
        "group=a",
        "user=",
        "user=a,",
        "user=a,user=b",
        "client-id=a,user=b",
        "USER=a",
        "user=~4",
        "user=~zz",
        "user=~61",
        "user=~2F",
        "user=~ff",
        "user=a b",
        "user=a=b",
        "user=ä",
        "user=\ud800",
    ],
)
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(BadId):
        entity_of(text)
