"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.controller.commands import OpType, ResourceType
from broker.protocol.messages import alter_configs, incremental_alter_configs
from broker.protocol.messages.alter_configs import AlterConfigsRequest
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.api.harness import Harness

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
CLIENT_METRICS = ResourceType.CLIENT_METRICS


@pytest.fixture
async def orders(harness: Harness) -> Harness:
    await harness.create_topic("orders")
    return harness


async def described(
    harness: Harness, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: bool
) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys)], **more)
    return (await harness.ask(request, version)).results[0]


async def altered(
    harness: Harness, kind: int, name: str, *ops: tuple[str, int, str | None], validate_only: bool = False
) -> Any:
    configs = [incremental_alter_configs.AlterableConfig(*op) for op in ops]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
    reply = await harness.ask(IncrementalAlterConfigsRequest([resource], validate_only))
    return reply.responses[0]


async def replaced(harness: Harness, kind: int, name: str, **values: str) -> Any:
    configs = [alter_configs.AlterableConfig(key.replace("_", "."), value) for key, value in values.items()]
    resource = alter_configs.AlterConfigsResource(kind, name, configs)
    return (await harness.ask(AlterConfigsRequest([resource]))).responses[0]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_a_topic_without_settings_of_its_own_has_defaults(orders: Harness, version: int) -> None:
    result = await described(orders, TOPIC, "orders", ["retention.ms"], version)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "orders")
    (row,) = result.configs
    assert (row.name, row.value, row.config_source) == ("retention.ms", "604800000", 5)
    assert (row.synonyms, row.documentation) == ([], None)


async def test_null_asks_for_all_and_so_does_an_empty_list_as_in_kafka(orders: Harness) -> None:
    assert len((await described(orders, TOPIC, "orders")).configs) > 10
    for kind, name in ((TOPIC, "orders"), (BROKER, "1")):
        assert (await described(orders, kind, name, [])).configs == (
            await described(orders, kind, name)
        ).configs
    assert (await described(orders, TOPIC, "orders", ["no.such.key"])).configs == []


async def test_synonyms_and_words_come_when_they_are_asked_for(orders: Harness) -> None:
    await altered(orders, TOPIC, "orders", ("retention.ms", OpType.SET, "5000"))
    result = await described(
        orders, TOPIC, "orders", ["retention.ms"], include_synonyms=True, include_documentation=True
    )
    (row,) = result.configs
    assert (row.value, row.config_source, row.read_only, row.is_sensitive) == ("5000", 1, False, False)
    assert [(each.name, each.value, each.source) for each in row.synonyms] == [
        ("retention.ms", "5000", 1),
    ]
    assert row.documentation and row.config_type == 5


async def test_the_default_of_all_brokers_names_min_insync_replicas(orders: Harness) -> None:
    """Kafka sets it at its first start."""

    async def found() -> list[tuple[str, str | None, int]]:
        result = await described(orders, BROKER, "", None, include_synonyms=True)
        return [(row.name, row.value, row.config_source) for row in result.configs]

    assert await found() == [("min.insync.replicas", "1", 3)]
    await altered(orders, BROKER, "", ("min.insync.replicas", OpType.SET, "4"))
    await altered(orders, BROKER, "", ("log.retention.ms", OpType.SET, "5"))
    assert await found() == [("log.retention.ms", "5", 3), ("min.insync.replicas", "4", 3)]


async def test_all_brokers_have_a_default_of_min_insync_replicas_as_in_kafka(orders: Harness) -> None:
    async def candidates(kind: int, name: str) -> list[tuple[str, int]]:
        result = await described(orders, kind, name, ["min.insync.replicas"], include_synonyms=True)
        (row,) = result.configs
        assert (row.value, row.config_source) == (row.synonyms[0].value, row.synonyms[0].source)
        return [(each.value, each.source) for each in row.synonyms]

    for kind, name in ((TOPIC, "orders"), (BROKER, "1")):
        assert await candidates(kind, name) == [("1", 3), ("1", 5)]
    await altered(orders, BROKER, "1", ("min.insync.replicas", OpType.SET, "2"))
    await altered(orders, TOPIC, "orders", ("min.insync.replicas", OpType.SET, "3"))
    assert await candidates(TOPIC, "orders") == [("3", 1), ("2", 2), ("1", 3), ("1", 5)]
    await altered(orders, BROKER, "", ("min.insync.replicas", OpType.SET, "4"))
    assert await candidates(TOPIC, "orders") == [("3", 1), ("2", 2), ("4", 3), ("1", 5)]


async def test_directories_are_cordoned_for_one_broker(harness: Harness, tmp_path: Path) -> None:
    key = "cordoned.log.dirs"

    async def refusal(name: str, text: str) -> tuple[int, str]:
        reply = await altered(harness, BROKER, name, (key, OpType.SET, text))
        return reply.error_code, reply.error_message or ""

    assert await refusal("1", str(tmp_path)) == (0, "")
    assert harness.control.config.log.is_cordoned(str(tmp_path))
    (row,) = (await described(harness, BROKER, "1", [key])).configs
    assert (row.value, row.config_source, row.read_only) == (str(tmp_path), 2, False)
    for text in (str(tmp_path / "other"), f"{tmp_path},*", "*,*x"):
        assert (await refusal("1", text))[0] == ErrorCode.INVALID_REQUEST
    assert (await refusal("", "*"))[0] != 0
    assert await refusal("1", "*") == (0, "")
    assert (await altered(harness, BROKER, "1", (key, OpType.DELETE, None))).error_code == 0
    assert not harness.control.config.log.is_cordoned(str(tmp_path))


async def test_settings_of_kerberos_are_changed_for_one_broker(harness: Harness) -> None:
    key = "sasl.kerberos.min.time.before.relogin"
    assert (await altered(harness, BROKER, "1", (key, OpType.SET, "58000"))).error_code == ErrorCode.NONE
    (row,) = (await described(harness, BROKER, "1", [key])).configs
    assert (row.value, row.config_source, row.read_only) == ("58000", 2, False)
    assert (await altered(harness, BROKER, "1", (key, OpType.SET, "-1"))).error_code != ErrorCode.NONE
    assert (await altered(harness, BROKER, "", (key, OpType.SET, "1"))).error_code != ErrorCode.NONE


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "1", ErrorCode.NONE),
        (BROKER, "", ErrorCode.NONE),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "queues", ErrorCode.NONE),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "g", ErrorCode.NONE),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_resource_that_cannot_be_described_gets_the_reason(
    orders: Harness, kind: int, name: str, error: ErrorCode
) -> None:
    result = await described(orders, kind, name)
    assert (result.error_code, result.resource_type, result.resource_name) == (error, kind, name)


async def test_settings_are_set_and_removed_one_by_one(orders: Harness) -> None:
    await altered(orders, TOPIC, "orders", ("retention.ms", OpType.SET, "5000"))
    reply = await altered(
        orders, TOPIC, "orders", ("retention.ms", OpType.DELETE, None), ("segment.ms", OpType.SET, "7")
    )
    assert (reply.error_code, reply.resource_name) == (ErrorCode.NONE, "orders")
    assert dict(orders.control.image.topics["orders"].configs) == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (("retention.ms", OpType.SET, "soon"), ErrorCode.INVALID_CONFIG),
        (("no.such.key", OpType.SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_bad_setting_changes_nothing(
    orders: Harness, op: tuple[str, int, str], error: ErrorCode
) -> None:
    reply = await altered(orders, TOPIC, "orders", ("segment.ms", OpType.SET, "7"), op)
    assert reply.error_code == error and reply.error_message
    assert dict(orders.control.image.topics["orders"].configs) == {}


async def test_validating_settings_changes_nothing(orders: Harness) -> None:
    reply = await altered(orders, TOPIC, "orders", ("segment.ms", OpType.SET, "7"), validate_only=True)
    assert reply.error_code == ErrorCode.NONE
    assert dict(orders.control.image.topics["orders"].configs) == {}


async def test_replacing_removes_what_is_not_named(orders: Harness) -> None:
    await replaced(orders, TOPIC, "orders", retention_ms="5000", segment_ms="7")
    reply = await replaced(orders, TOPIC, "orders", segment_ms="8")
    assert reply.error_code == ErrorCode.NONE
    assert dict(orders.control.image.topics["orders"].configs) == {"segment.ms": "8"}


async def test_replacing_the_settings_of_a_missing_topic_is_refused(harness: Harness) -> None:
    reply = await replaced(harness, TOPIC, "missing", segment_ms="8")
    assert reply.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_settings_of_the_broker_are_replaced_too(harness: Harness) -> None:
    await replaced(harness, BROKER, "1", log_retention_ms="5000")
    assert dict(harness.control.image.broker_configs["1"]) == {"log.retention.ms": "5000"}
    await replaced(harness, BROKER, "1")
    assert not harness.control.image.broker_configs.get("1")


async def test_a_subscription_to_client_metrics_is_altered_described_and_replaced(harness: Harness) -> None:
    assert (await altered(harness, CLIENT_METRICS, "q", ("interval.ms", OpType.SET, "100"))).error_code == 0
    assert (await altered(harness, CLIENT_METRICS, "q", ("interval.ms", OpType.SET, "99"))).error_code == 42
    result = await described(harness, CLIENT_METRICS, "q", include_synonyms=True)
    assert [(row.name, row.value, row.config_source) for row in result.configs] == [
        ("interval.ms", "100", 7),
        ("match", "", 5),
        ("metrics", "", 5),
    ]
    assert (await replaced(harness, CLIENT_METRICS, "q", metrics="*")).error_code == 0
    assert harness.control.image.client_metrics["q"].configs == {"metrics": "*"}
    assert (await replaced(harness, CLIENT_METRICS, "q")).error_code == 0
    assert harness.control.image.client_metrics == {}
