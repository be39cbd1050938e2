"""Large messages are freed in slices of bounded size."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

from broker.protocol.dismantle import AT_ONCE, dismantle, locals_of
from broker.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from broker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Watched(MetadataResponsePartition):
    """A partition that records when it is freed."""

    __slots__ = ("__weakref__",)


def watched(count: int) -> tuple[list[Any], list[int]]:
    alive = [count]

    def gone() -> None:
        alive[0] -= 1

    made = [Watched(0, at, 1, 1, [1], [1], []) for at in range(count)]
    for each in made:
        weakref.finalize(each, gone).atexit = False
    return made, alive


def test_one_topic_of_many_partitions() -> None:
    gc.collect()
    partitions, alive = watched(3 * AT_ONCE + 1)
    topics = [MetadataResponseTopic(0, "t", partitions=partitions)]
    slices = dismantle(MetadataResponse(topics=topics))
    del partitions, topics
    most, before = 0, alive[0]
    for _ in slices:
        most, before = max(most, before - alive[0]), alive[0]
    assert most == AT_ONCE and alive == [0]


def test_many_topics_of_some_partitions() -> None:
    partitions, alive = watched(2 * AT_ONCE)
    topics = [MetadataResponseTopic(0, "t", partitions=partitions[at : at + 4]) for at in range(0, 4096, 4)]
    slices = dismantle(MetadataResponse(topics=topics))
    del partitions, topics
    most, before = 0, alive[0]
    for _ in slices:
        most, before = max(most, before - alive[0]), alive[0]
    assert most == AT_ONCE and alive == [0]


def test_referenced_buffers_stay_unchanged() -> None:
    topics = [MetadataRequestTopic(name=str(at)) for at in range(5 * AT_ONCE)]
    for _ in dismantle(MetadataRequest(topics)):
        pass
    assert [topic.name for topic in topics] == [str(at) for at in range(5 * AT_ONCE)]


def test_structs_that_are_not_in_arrays_and_what_is_missing() -> None:
    reply = DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(0, "t")], next_cursor=Cursor("t", 1)
    )
    assert list(dismantle(reply))
    assert list(dismantle(MetadataRequest(None)))
    assert reply.next_cursor is not None and reply.next_cursor.topic_name == "t"


def test_a_list_of_structs() -> None:
    partitions, alive = watched(2 * AT_ONCE)
    topics = [MetadataResponseTopic(0, "t", partitions=partitions)]
    slices = dismantle(topics)
    del partitions, topics
    most, before = 0, alive[0]
    for _ in slices:
        most, before = max(most, before - alive[0]), alive[0]
    assert most == AT_ONCE and alive == [0]


def test_locals_of_suspended_work_are_found_in_each_of_its_generators() -> None:
    def inner(message: MetadataRequest) -> Iterator[None]:
        seen = {1}
        yield
        assert seen and message

    def outer() -> Iterator[None]:
        made = [0]
        count = 1
        yield from inner(MetadataRequest([]))
        assert made and count

    work: Any = outer()
    assert list(locals_of(work)) == []
    next(work)
    assert list(locals_of(work)) == [[0], MetadataRequest([]), {1}]
    work.close()
    assert list(locals_of(work)) == []
