"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources at the gateway."""

import struct
from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.controller.commands import ResourceType
from broker.gateway.forwarder import SMALL_BYTES
from broker.gateway.responses import encoded
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import encode_request
from broker.protocol.messages.alter_configs import (
    AlterableConfig as ReplacingConfig,
)
from broker.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from broker.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResult,
)
from broker.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from broker.telemetry.subscription import SETTINGS
from tests.support.gateway_upstream import Upstream, gateway_upstream
from tests.support.running_gateway import RunningGateway
from tests.support.wire import WireClient

NONE = ErrorCode.NONE
TOPIC, BROKER, CLIENT_METRICS = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS
MIXED = [(TOPIC, "t"), (CLIENT_METRICS, "m"), (BROKER, "0"), (CLIENT_METRICS, "n"), (TOPIC, "u")]
THEIRS = [(TOPIC, "t"), (BROKER, "0"), (TOPIC, "u")]
OURS = [(CLIENT_METRICS, "m"), (CLIENT_METRICS, "n")]


def describe(*resources: tuple[int, str], keys: list[str] | None = None) -> DescribeConfigsRequest:
    return DescribeConfigsRequest([DescribeConfigsResource(kind, name, keys) for kind, name in resources])


def set_interval(*resources: tuple[int, str], validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig("interval.ms", 0, "1000")]
    return IncrementalAlterConfigsRequest(
        [IncrementalResource(kind, name, configs) for kind, name in resources], validate_only
    )


def replace_interval(*resources: tuple[int, str]) -> AlterConfigsRequest:
    configs = [ReplacingConfig("interval.ms", "2000")]
    return AlterConfigsRequest([AlterConfigsResource(kind, name, configs) for kind, name in resources])


def named(resources: list[Any]) -> list[tuple[int, str]]:
    return [(each.resource_type, each.resource_name) for each in resources]


def altered(upstream: Upstream) -> None:
    """The upstream node refuses the topic `u`, and accepts everything else."""

    def of(response: Any, result: Any) -> Any:
        def answer(request: Any) -> Any:
            return response(
                upstream.throttle_ms,
                [
                    result(ErrorCode.INVALID_REQUEST if name == "u" else NONE, None, kind, name)
                    for kind, name in named(request.resources)
                ],
            )

        return answer

    upstream.node.answers[ApiKey.ALTER_CONFIGS] = of(AlterConfigsResponse, AlterConfigsResourceResponse)
    upstream.node.answers[ApiKey.INCREMENTAL_ALTER_CONFIGS] = of(
        IncrementalAlterConfigsResponse, IncrementalResult
    )


def subscriptions(gateway: RunningGateway) -> dict[str, dict[str, str]]:
    return {name: dict(entry.configs) for name, entry in gateway.server.control.image.client_metrics.items()}


async def test_a_description_is_merged_in_the_order_of_the_request(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        upstream.throttle_ms = 11
        reply = await client.ask(describe(*MIXED), 4)
        assert reply.throttle_time_ms == 11
        assert named(reply.results) == MIXED
        names = [[each.name for each in result.configs] for result in reply.results]
        theirs, ours = ["name", "num.partitions"], list(SETTINGS)
        assert names == [theirs, ours, theirs, ours, theirs]
        (request,) = upstream.requests_of(ApiKey.DESCRIBE_CONFIGS)
        assert named(request.resources) == THEIRS


async def test_a_repeated_resource_is_described_as_each_side_does(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, _):
        client = await gateway.connect()
        reply = await client.ask(describe((TOPIC, "t"), (CLIENT_METRICS, "m"), (TOPIC, "t"), *OURS), 4)
        assert named(reply.results) == [(TOPIC, "t"), (CLIENT_METRICS, "m"), (TOPIC, "t"), OURS[1]]


async def test_a_request_without_client_metrics_is_forwarded_untouched(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect("a client id with the byte \x10")
        upstream.throttle_ms = 5
        for resources in (THEIRS, []):
            sent = await client.send(describe(*resources), 4)
            expected: DescribeConfigsResponse = upstream.node.answers[ApiKey.DESCRIBE_CONFIGS](
                describe(*resources)
            )
            assert await client.receive_frame() == encoded(expected, 4, sent)[4:]
        # Pipelined requests do not wait for each other.
        upstream.node.answers_nothing = True
        for _ in range(3):
            await client.send(describe(*THEIRS), 4)
        await upstream.node.wait_until(lambda: len(upstream.requests_of(ApiKey.DESCRIBE_CONFIGS)) == 5)
        upstream.node.stop()


async def test_client_metrics_alone_need_no_upstream_connection(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        before = upstream.node.connections
        assert (await client.ask(set_interval(*OURS), 1)).responses[1].error_code == NONE
        assert named((await client.ask(describe(*OURS), 4)).results) == OURS
        assert subscriptions(gateway) == {"m": {"interval.ms": "1000"}, "n": {"interval.ms": "1000"}}
        assert upstream.node.connections == before


@pytest.mark.parametrize("size", [SMALL_BYTES, SMALL_BYTES + 1, 200_000])
@pytest.mark.parametrize("is_mixed", [False, True])
async def test_large_requests_are_answered_alike(tmp_path: Path, size: int, is_mixed: bool) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        resources: list[tuple[int, str]] = [(TOPIC, f"t{number:05}") for number in range(size // 16)]
        if is_mixed:
            resources.insert(7, (CLIENT_METRICS, "m"))
        request = describe(*resources, keys=["name"])
        missing = size - (len(framed(request, 4, client)) - 4)
        assert missing > 0
        resources[0] = (TOPIC, "t" * (missing + 6))
        request = describe(*resources, keys=["name"])
        excess = len(framed(request, 4, client)) - 4 - size  # the varint of a long name
        resources[0] = (TOPIC, "t" * (missing + 6 - excess))
        request = describe(*resources, keys=["name"])
        assert len(framed(request, 4, client)) - 4 == size
        reply = await client.ask(request, 4)
        assert named(reply.results) == resources
        (described,) = upstream.requests_of(ApiKey.DESCRIBE_CONFIGS)
        assert named(described.resources) == [each for each in resources if each[0] == TOPIC]
        # The next request finds the connection in order.
        assert named((await client.ask(describe(*MIXED), 4)).results) == MIXED


def framed(request: Any, version: int, client: WireClient) -> bytes:
    parts = encode_request(request.API_KEY, version)(request, 1, client.client_id)
    return b"".join(bytes(part) for part in parts)


async def test_changes_are_split_and_their_results_merged(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        altered(upstream)
        upstream.throttle_ms = 9
        client = await gateway.connect()
        errors = [ErrorCode.INVALID_REQUEST if name == "u" else NONE for _, name in MIXED]
        cases = ((set_interval(*MIXED), 1, "1000"), (replace_interval(*MIXED), 2, "2000"))
        for message, version, interval in cases:
            sent = await client.send(message, version)
            result = IncrementalResult if version == 1 else AlterConfigsResourceResponse
            response = IncrementalAlterConfigsResponse if version == 1 else AlterConfigsResponse
            results = [
                result(error, None, kind, name) for error, (kind, name) in zip(errors, MIXED, strict=True)
            ]
            expected = response(9, results)  # type: ignore[arg-type] # of the same API
            assert await client.receive_frame() == encoded(expected, version, sent)[4:]
            (request,) = upstream.requests_of(message.API_KEY)
            assert named(request.resources) == THEIRS
            assert subscriptions(gateway) == {name: {"interval.ms": interval} for name in "mn"}


async def test_a_validation_changes_nothing(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        altered(upstream)
        client = await gateway.connect()
        reply = await client.ask(set_interval(*MIXED, validate_only=True), 1)
        assert named(reply.responses) == MIXED
        (request,) = upstream.requests_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        assert request.validate_only
        assert subscriptions(gateway) == {}


async def test_wire_role_decides_about_client_metrics_only(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path, "wire.role=viewer") as (gateway, upstream):
        altered(upstream)
        client = await gateway.connect()
        reply = await client.ask(set_interval(*MIXED), 1)
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert [each.error_code for each in reply.responses] == [
            NONE,
            refused,
            NONE,
            refused,
            ErrorCode.INVALID_REQUEST,
        ]
        assert subscriptions(gateway) == {}
        assert named((await client.ask(describe(*OURS), 4)).results) == OURS


async def test_a_lost_upstream_connection_leaves_client_metrics_as_they_were(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        upstream.node.answers_nothing = True
        await client.send(set_interval(*MIXED), 1)
        await upstream.node.wait_until(lambda: bool(upstream.requests_of(ApiKey.INCREMENTAL_ALTER_CONFIGS)))
        upstream.node.stop()
        assert await client.is_closed()
        assert subscriptions(gateway) == {}


def listing(upstream: Upstream) -> None:
    def answer(request: Any) -> ListConfigResourcesResponse:
        kinds = request.resource_types or [2, 4, 8, 16, 32]
        if 3 in kinds:
            return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesResponse(0, 0, [ConfigResource(f"up{kind}", kind) for kind in kinds])

    upstream.node.answers[ApiKey.LIST_CONFIG_RESOURCES] = answer


@pytest.mark.parametrize(
    ("wanted", "forwarded", "listed"),
    [
        ([], [], [("up2", 2), ("up4", 4), ("up8", 8), ("up32", 32), ("m", 16)]),
        ([16], None, [("m", 16)]),
        ([16, 2], [2], [("up2", 2), ("m", 16)]),
        ([2, 4], [2, 4], [("up2", 2), ("up4", 4)]),
    ],
)
async def test_resources_are_listed_of_both(
    tmp_path: Path, wanted: list[int], forwarded: list[int] | None, listed: list[tuple[str, int]]
) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        listing(upstream)
        client = await gateway.connect()
        await client.ask(set_interval((CLIENT_METRICS, "m")), 1)
        sent = await client.send(ListConfigResourcesRequest(wanted), 1)
        expected = ListConfigResourcesResponse(0, 0, [ConfigResource(*each) for each in listed])
        assert await client.receive_frame() == encoded(expected, 1, sent)[4:]
        requests = upstream.requests_of(ApiKey.LIST_CONFIG_RESOURCES)
        assert [each.resource_types for each in requests] == ([] if forwarded is None else [forwarded])


async def test_an_unknown_type_is_the_upstream_brokers_to_refuse(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        listing(upstream)
        client = await gateway.connect()
        reply = await client.ask(ListConfigResourcesRequest([16, 3]), 1)
        assert (reply.error_code, reply.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


async def test_an_upstream_broker_without_the_api_leaves_the_list_of_client_metrics(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, upstream):
        client = await gateway.connect()
        assert (await offered(client))[ApiKey.LIST_CONFIG_RESOURCES] == (0, 1)
        del upstream.node.versions[ApiKey.LIST_CONFIG_RESOURCES]
        upstream.node.versions[ApiKey.DESCRIBE_CONFIGS] = (1, 2)
        versions = await offered(client)
        assert versions[ApiKey.LIST_CONFIG_RESOURCES] == (0, 0)
        assert versions[ApiKey.DESCRIBE_CONFIGS] == (1, 2)
        await client.ask(set_interval((CLIENT_METRICS, "m")), 1)
        listed = await client.ask(ListConfigResourcesRequest(), 0)
        assert [each.resource_name for each in listed.config_resources] == ["m"]
        assert not upstream.requests_of(ApiKey.LIST_CONFIG_RESOURCES)


async def offered(client: WireClient) -> dict[int, tuple[int, int]]:
    reply = await client.ask(ApiVersionsRequest("suite", "1"), 3)
    return {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys}


async def test_a_damaged_request_closes_its_connection(tmp_path: Path) -> None:
    async with gateway_upstream(tmp_path) as (gateway, _):
        client = await gateway.connect()
        body = struct.pack(">hhih", ApiKey.DESCRIBE_CONFIGS, 1, 1, -1) + b"\x00\x00\x00\x02\x10"
        await client.stream.send_all(struct.pack(">i", len(body)) + body)
        assert await client.is_closed()
        assert named((await (await gateway.connect()).ask(describe(*MIXED), 4)).results) == MIXED


@pytest.mark.parametrize("setting", ["gateway.quotas=upstream", "telemetry.enabled=false"])
async def test_everything_is_forwarded_where_client_metrics_are_not_ours(
    tmp_path: Path, setting: str
) -> None:
    async with gateway_upstream(tmp_path, setting) as (gateway, upstream):
        listing(upstream)
        client = await gateway.connect()
        reply = await client.ask(describe(*MIXED), 4)
        assert named(reply.results) == MIXED
        assert {each.configs[0].value for each in reply.results} == {"upstream"}
        listed = await client.ask(ListConfigResourcesRequest([16]), 1)
        assert [each.resource_name for each in listed.config_resources] == ["up16"]
