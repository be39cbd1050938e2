"""FindCoordinator."""

from pathlib import Path

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.api.harness import Harness


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_one_group_is_kept_by_this_broker(harness: Harness, version: int) -> None:
    reply = await harness.ask(FindCoordinatorRequest("readers"), version)
    assert (reply.error_code, reply.node_id) == (ErrorCode.NONE, 1)
    assert (reply.host, reply.port) == ("broker.example", 9092)


@pytest.mark.parametrize("version", [4, 6])
async def test_each_of_several_groups_has_an_answer(harness: Harness, version: int) -> None:
    reply = await harness.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"]), version)
    assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [
        ("a", 1, ErrorCode.NONE),
        ("b", 1, ErrorCode.NONE),
    ]


async def test_the_first_question_makes_the_offsets_topic_and_the_second_finds_it(harness: Harness) -> None:
    assert not harness.groups.is_available
    first = await harness.put(FindCoordinatorRequest(coordinator_keys=["a"]))
    topic = harness.control.image.topics["__consumer_offsets"]
    assert (topic.partitions, topic.internal, topic.configs["cleanup.policy"]) == (1, True, "compact")
    second = await harness.put(FindCoordinatorRequest(coordinator_keys=["a"]))
    assert harness.answer(first) == harness.answer(second)
    assert second.outcome.cacheable  # type: ignore[union-attr]
    assert harness.control.image.topics["__consumer_offsets"] is topic


async def test_the_offsets_topic_is_the_same_when_metadata_is_asked_first(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "offsets.topic.num.partitions=3", "num.partitions=5")
    await harness.ask(MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")]))
    topic = harness.control.image.topics["__consumer_offsets"]
    assert (topic.partitions, topic.configs["cleanup.policy"]) == (3, "compact")
    harness.close()


@pytest.mark.parametrize(
    ("size", "key"), [("1048575", "internal.segment.bytes"), ("1048576", "segment.bytes")]
)
async def test_the_offsets_topic_may_have_smaller_segments_than_other_topics(
    tmp_path: Path, size: str, key: str
) -> None:
    harness = Harness(tmp_path, f"offsets.topic.segment.bytes={size}")
    await harness.ask(FindCoordinatorRequest(coordinator_keys=["a"]))
    configs = harness.control.image.topics["__consumer_offsets"].configs
    assert {name: value for name, value in configs.items() if "segment.bytes" in name} == {key: size}
    harness.close()


async def test_two_concurrent_first_requests_are_both_served(harness: Harness) -> None:
    errors = []

    async def ask() -> None:
        reply = await harness.ask(FindCoordinatorRequest(coordinator_keys=["a"]))
        errors.append(reply.coordinators[0].error_code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        nursery.start_soon(ask)
    assert errors == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("key_type", "error"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_other_coordinators_are_refused(harness: Harness, key_type: int, error: ErrorCode) -> None:
    old = await harness.ask(FindCoordinatorRequest("x", key_type), 3)
    assert (old.error_code, old.node_id) == (error, -1)
    new = await harness.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))
    assert [(each.error_code, each.node_id) for each in new.coordinators] == [(error, -1)]
    assert not harness.groups.is_available
