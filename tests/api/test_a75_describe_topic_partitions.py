"""DescribeTopicPartitions."""

import pytest

from broker.common.errors import ErrorCode
from broker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from broker.security.acl.acl import ResourceType
from broker.security.acl.authorizer import EVERY_OPERATION
from tests.api.harness import Harness

Page = tuple[list[tuple[str, list[int]]], tuple[str, int] | None]


@pytest.fixture
async def three(harness: Harness) -> Harness:
    for name, partitions in (("c", 1), ("a", 3), ("b", 2)):
        await harness.create_topic(name, partitions)
    return harness


async def page(harness: Harness, names: str = "", limit: int = 2_000, cursor: Cursor | None = None) -> Page:
    request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
    reply = await harness.ask(request)
    topics = [(each.name, [p.partition_index for p in each.partitions]) for each in reply.topics]
    following = reply.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


async def test_topics_come_in_the_order_of_their_names(three: Harness) -> None:
    assert await page(three, "cab") == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


async def test_no_topic_named_means_all(three: Harness) -> None:
    assert await page(three) == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (0, ([("a", [0])], ("a", 1))),
        (1, ([("a", [0])], ("a", 1))),
        (2, ([("a", [0, 1])], ("a", 2))),
        (3, ([("a", [0, 1, 2])], ("b", 0))),
        (4, ([("a", [0, 1, 2]), ("b", [0])], ("b", 1))),
        (5, ([("a", [0, 1, 2]), ("b", [0, 1])], ("c", 0))),
        (6, ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)),
        (7, ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)),
    ],
)
async def test_a_page_ends_at_its_limit_and_says_where_to_go_on(
    three: Harness, limit: int, expected: Page
) -> None:
    assert await page(three, limit=limit) == expected


@pytest.mark.parametrize("limit", range(1, 8))
async def test_pages_together_are_the_whole(three: Harness, limit: int) -> None:
    seen: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    while True:
        topics, following = await page(three, limit=limit, cursor=cursor)
        seen += [(name, index) for name, indexes in topics for index in indexes]
        if following is None:
            break
        cursor = Cursor(*following)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


async def test_a_cursor_past_the_last_partition_goes_on_with_the_next_topic(three: Harness) -> None:
    assert await page(three, cursor=Cursor("b", 2)) == ([("b", []), ("c", [0])], None)


async def test_a_cursor_at_a_topic_that_is_gone_goes_on_behind_it(three: Harness) -> None:
    assert await page(three, cursor=Cursor("aa", 1)) == ([("b", [0, 1]), ("c", [0])], None)


async def test_every_topic_asked_for_has_an_entry(three: Harness) -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("a"), TopicRequest("zz"), TopicRequest("a/b")])
    reply = await three.ask(request)
    assert [(each.name, each.error_code, len(each.partitions)) for each in reply.topics] == [
        ("a", ErrorCode.NONE, 3),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
        ("zz", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
    ]


async def test_a_topic_that_does_not_exist_has_authorized_operations_too(three: Harness) -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("c"), TopicRequest("zz")])
    reply = await three.ask(request)
    every = EVERY_OPERATION[ResourceType.TOPIC]
    assert [each.topic_authorized_operations for each in reply.topics] == [every, every]


async def test_replicas_out_of_use_are_empty_lists_and_never_null(three: Harness) -> None:
    (topic,) = (await three.ask(DescribeTopicPartitionsRequest([TopicRequest("c")]))).topics
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])
    assert topic.topic_id == three.control.image.topics["c"].topic_id


async def test_a_cursor_before_the_first_partition_is_an_invalid_request(three: Harness) -> None:
    reply = await three.ask(DescribeTopicPartitionsRequest([TopicRequest("a")], 10, Cursor("a", -1)))
    assert [(each.name, each.error_code) for each in reply.topics] == [("a", ErrorCode.INVALID_REQUEST)]
