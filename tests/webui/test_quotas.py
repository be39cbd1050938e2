"""The command that does the same as an edit."""

import shlex

import pytest

from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.client_endpoint import ClientEndpoint
from webui.quotas import kafka_configs, plain, shell_command

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
    weir = "weir quotas set --user 'al ice' --client-id-default"
    assert shell_command(ClientEndpoint("b:1"), QuotaAlteration(entity, (limit,))) == kafka
    assert (
        shell_command(ClientEndpoint("b:1"), QuotaAlteration(entity, (), shadow=True)) == f"{weir} --shadow"
    )
    both = QuotaAlteration(entity, (limit,), shadow=False)
    assert shell_command(ClientEndpoint("b:1"), both) == f"{kafka} && {weir} --enforce"
