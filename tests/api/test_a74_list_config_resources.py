"""ListConfigResources in both versions, and DescribeConfigs of the listed loggers."""

from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType
from broker.protocol.messages import incremental_alter_configs as alteration
from broker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from broker.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.api.harness import Harness

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
METRICS, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP


@pytest.fixture
async def full(harness: Harness) -> Harness:
    await harness.create_topic("orders")
    interval = alteration.AlterableConfig("interval.ms", 0, "5000")
    resource = alteration.AlterConfigsResource(METRICS, "subscription", [interval])
    reply = await harness.ask(alteration.IncrementalAlterConfigsRequest([resource]))
    assert reply.responses[0].error_code == ErrorCode.NONE
    return harness


async def listed(harness: Harness, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    reply = await harness.ask(ListConfigResourcesRequest(list(kinds)), version)
    assert reply.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in reply.config_resources]


async def test_version_0_lists_subscriptions_to_client_metrics(full: Harness) -> None:
    assert await listed(full, version=0) == [(METRICS, "subscription")]


async def test_without_types_all_are_listed_in_kafkas_order(full: Harness) -> None:
    assert await listed(full) == [
        (METRICS, "subscription"),
        (LOGGER, "1"),
        (BROKER, "1"),
        (TOPIC, "orders"),
    ]


@pytest.mark.parametrize(
    ("kind", "names"),
    [(TOPIC, ["orders"]), (BROKER, ["1"]), (LOGGER, ["1"]), (METRICS, ["subscription"]), (GROUP, [])],
)
async def test_a_type_asked_for_is_listed_alone_and_once(full: Harness, kind: int, names: list[str]) -> None:
    assert await listed(full, kind, kind) == [(kind, name) for name in names]


@pytest.mark.parametrize("kind", [0, 1, 64, -1, 127])
async def test_a_type_that_is_none_is_an_unsupported_version(full: Harness, kind: int) -> None:
    reply = await full.ask(ListConfigResourcesRequest([TOPIC, kind]), 1)
    assert (reply.error_code, reply.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def logger_rows(harness: Harness, name: str, keys: list[str] | None = None) -> Any:
    request = DescribeConfigsRequest([DescribeConfigsResource(LOGGER, name, keys)], True, True)
    return (await harness.ask(request)).results[0]


async def test_loggers_are_described_with_the_level_that_holds(harness: Harness) -> None:
    result = await logger_rows(harness, "1", ["root"])
    (row,) = result.configs
    assert (row.name, row.config_source, row.read_only, row.is_sensitive) == ("root", 6, False, False)
    assert row.value in ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
    assert (row.synonyms, row.documentation) == ([], None)
    assert "broker.partitions.partitions" in {each.name for each in (await logger_rows(harness, "1")).configs}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "Broker id must not be empty"),
        ("2", "Unexpected broker id, expected 1 but received 2"),
        ("one", "Broker id must be an integer, but it is: one"),
    ],
)
async def test_loggers_are_this_brokers(harness: Harness, name: str, words: str) -> None:
    result = await logger_rows(harness, name)
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, words)
    assert result.configs == []
