"""Streams groups of the upstream cluster at the REST API of a gateway: a stub of a broker tells of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from broker.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from broker.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from broker.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.gateway.contents.world import CONSOLE, rest_of
from tests.support.fake_upstream import FakeNode, fake_cluster
from tests.support.running_gateway import running_gateway
from webui.rest.groups import GROUP_DETAIL, GROUP_PAGE

REPARTITION, CHANGELOG = "app-counts-repartition", "app-counts-changelog"
WORD_COUNT = Topology(
    3,
    [
        Subtopology("10", ["late"]),
        Subtopology("1", [], [], [TopicInfo(CHANGELOG, 2)], [TopicInfo(REPARTITION, 0)]),
        Subtopology("0", ["orders"], [REPARTITION]),
    ],
)
FIRST = Member(
    "m1",
    7,
    "static",
    "rack",
    "app",
    "/10.0.0.7",
    3,
    "p1",
    Endpoint("here", 80),
    [KeyValue("zone", "a")],
    [TaskOffset("1", 0, 5)],
    [TaskOffset("1", 0, 9), TaskOffset("1", 1, 7)],
    Assignment([TaskIds("1", [0, 1]), TaskIds("0", [1])], [], [TaskIds("10", [0])]),
    Assignment([TaskIds("1", [0]), TaskIds("10", [0])], [TaskIds("1", [1])], []),
)
SECOND = Member("m2", 7, None, None, "app", "/10.0.0.8", -1, "p2", None)


def described(*groups: DescribedGroup) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=list(groups))


APP = DescribedGroup(0, None, "app", "Reconciling", 7, 7, WORD_COUNT, [FIRST, SECOND], assignor_name="sticky")


def prepare(node: FakeNode) -> None:
    """`app` has committed 2 of the partition of `orders`, which ends at 12."""
    node.versions |= {
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.STREAMS_GROUP_DESCRIBE: (0, 1),
        ApiKey.OFFSET_FETCH: (1, 9),
        ApiKey.LIST_OFFSETS: (1, 10),
    }
    offset = OffsetFetchResponseTopics("orders", partitions=[OffsetFetchResponsePartitions(0, 2)])
    partition = MetadataResponsePartition(0, 0, node.node_id)
    node.answers |= {
        ApiKey.FIND_COORDINATOR: lambda request: FindCoordinatorResponse(
            coordinators=[
                Coordinator(each, node.node_id, node.host, node.port) for each in request.coordinator_keys
            ]
        ),
        ApiKey.LIST_GROUPS: lambda _request: ListGroupsResponse(
            groups=[ListedGroup("app", "streams", "Reconciling", "Streams")]
        ),
        ApiKey.STREAMS_GROUP_DESCRIBE: lambda _request: described(APP),
        ApiKey.OFFSET_FETCH: lambda request: OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(each.group_id, [offset]) for each in request.groups]
        ),
        ApiKey.METADATA: lambda request: MetadataResponse(
            brokers=[MetadataResponseBroker(node.node_id, node.host, node.port)],
            topics=[
                MetadataResponseTopic(0, each.name, partitions=[partition]) for each in request.topics or ()
            ],
        ),
        ApiKey.LIST_OFFSETS: lambda _request: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse("orders", [ListOffsetsPartitionResponse(0, offset=12)])]
        ),
    }


@asynccontextmanager
async def console(directory: Path, *settings: str) -> AsyncIterator[tuple[FakeNode, httpx.AsyncClient]]:
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        prepare(node)
        async with (
            running_gateway(directory, node.port, CONSOLE, *settings) as gateway,
            rest_of(gateway) as http,
        ):
            yield node, http


async def got(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def internal(topic: str, partitions: int | None) -> dict[str, Any]:
    return {"topic": topic, "partitions": partitions}


def task(subtopology: str, partition: int, role: str | None, target: str | None, **more: int) -> Any:
    return {"subtopology": subtopology, "partition": partition, "role": role, "target": target, **more}


async def test_a_streams_group_has_its_topology_and_the_tasks_of_its_members(tmp_path: Path) -> None:
    async with console(tmp_path) as (node, http):
        answer = GROUP_DETAIL.check(await got(http, "groups/app"))
        assert (answer["state"], answer["group_type"], answer["protocol"]) == (
            "Reconciling",
            "streams",
            "streams",
        )
        assert (answer["members"], answer["assignor"], answer["lag"]) == (2, "sticky", 10)
        empty: dict[str, Any] = {
            "tasks": None,
            "repartition_source_topics": [],
            "repartition_sink_topics": [],
            "changelog_topics": [],
        }
        assert answer["streams"] == {
            "topology": {
                "epoch": 3,
                "subtopologies": [
                    {
                        **empty,
                        "id": "0",
                        "source_topics": ["orders"],
                        "repartition_sink_topics": [REPARTITION],
                    },
                    {
                        **empty,
                        "id": "1",
                        "source_topics": [],
                        "repartition_source_topics": [internal(REPARTITION, None)],
                        "changelog_topics": [internal(CHANGELOG, 2)],
                    },
                    {**empty, "id": "10", "source_topics": ["late"]},
                ],
            },
            "status": None,
        }
        first, second = answer["consumers"]
        assert (first["member_id"], first["instance_id"], first["address"]) == ("m1", "static", "/10.0.0.7")
        # What it reads are the active tasks that it has, and not those that it is to get.
        assert first["assigned"] == [
            {"topic": "orders", "partition": 1},
            {"topic": REPARTITION, "partition": 0},
            {"topic": REPARTITION, "partition": 1},
        ]
        assert first["streams"] == {
            "process_id": "p1",
            "topology_epoch": 3,
            "endpoint": {"host": "here", "port": 80},
            "client_tags": {"zone": "a"},
            "tasks": [
                task("0", 1, "active", None),
                task("1", 0, "active", "active", offset=5, end_offset=9),
                task("1", 1, "active", "standby", end_offset=7),
                task("10", 0, "warmup", "active"),
            ],
        }
        assert second["streams"] == {
            "process_id": "p2",
            "topology_epoch": -1,
            "endpoint": None,
            "client_tags": {},
            "tasks": [],
        }
        page = GROUP_PAGE.check(await got(http, "groups"))
        (row,) = page["items"]
        assert (row["group_id"], row["group_type"], row["members"], row["lag"]) == ("app", "streams", 2, 10)
        asked = [each for each in node.requests if each.API_KEY == ApiKey.STREAMS_GROUP_DESCRIBE]
        assert all(each.group_ids == ["app"] for each in asked) and asked


async def test_a_streams_group_without_a_topology_is_shown(tmp_path: Path) -> None:
    async with console(tmp_path) as (node, http):
        bare = DescribedGroup(0, None, "app", "Empty", 0, 0, None, [SECOND])
        node.answers[ApiKey.STREAMS_GROUP_DESCRIBE] = lambda _request: described(bare)
        answer = GROUP_DETAIL.check(await got(http, "groups/app"))
        assert answer["streams"] == {"topology": None, "status": None}
        assert (answer["state"], answer["assignor"]) == ("Empty", "")
        assert [each["assigned"] for each in answer["consumers"]] == [[]]


async def test_a_streams_group_that_may_not_be_described_is_listed_and_names_the_acl(tmp_path: Path) -> None:
    async with console(tmp_path) as (node, http):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        refusal = DescribedGroup(code, "no", "app", "", 0, 0, None)
        node.answers[ApiKey.STREAMS_GROUP_DESCRIBE] = lambda _request: described(refusal)
        answer = await got(http, "groups/app")
        assert (answer["state"], answer["consumers"], answer["lag"]) == ("Reconciling", [], 10)
        assert "streams" not in answer
        (refused,) = answer["upstream"]["refused"]
        assert (refused["api"], refused["operation"]) == ("StreamsGroupDescribe", "DESCRIBE")
        assert (refused["resource_type"], refused["resource_name"]) == ("GROUP", "app")


async def test_a_broker_that_does_not_know_the_api_leaves_the_group_without_members(tmp_path: Path) -> None:
    async with console(tmp_path) as (node, http):
        del node.versions[ApiKey.STREAMS_GROUP_DESCRIBE]
        answer = await got(http, "groups/app")
        assert (answer["group_type"], answer["consumers"], answer["lag"]) == ("streams", [], 10)
        assert "does not serve StreamsGroupDescribe" in answer["upstream"]["error"]
