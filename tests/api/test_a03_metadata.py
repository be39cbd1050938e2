"""Metadata of many topics: creation, caching, and lookup in slices."""

from pathlib import Path
from typing import Any

import pytest

from broker.api.a03_metadata import CREATED_AT_ONCE, _all_topics, _respond, handle
from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Response, Sliced
from broker.api.requests.services import MetadataServices
from broker.common.errors import ErrorCode
from broker.common.slices import SLICE, run_through
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.api.harness import Connection, Harness

STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
UNKNOWN, INVALID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION


def asking_for(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def a_context() -> Any:
    context = RequestContext()
    context.api_version = 9
    context.connection = Connection()
    return context


@pytest.mark.parametrize("count", [CREATED_AT_ONCE - 1, CREATED_AT_ONCE, CREATED_AT_ONCE + 1])
async def test_one_request_makes_a_hundred_topics_and_the_next_one_the_others(
    harness: Harness, count: int
) -> None:
    names = [f"events-{at}" for at in range(count)]
    for unmade in (max(count - CREATED_AT_ONCE, 0), 0):
        answer = await harness.ask(asking_for(*names), 9)
        errors = [topic.error_code for topic in answer.topics]
        assert errors == [0] * (count - unmade) + [UNKNOWN] * unmade
        assert all(len(topic.partitions) == 1 for topic in answer.topics[: count - unmade])
        assert len(harness.control.image.topics) == count - unmade


async def test_bad_names_do_not_count_among_the_hundred(harness: Harness) -> None:
    answer = await harness.ask(asking_for(*["a!"] * 300, "good", "good"), 9)
    assert [topic.error_code for topic in answer.topics] == [INVALID] * 300 + [0, 0]
    assert list(harness.control.image.topics) == ["good"]


async def test_nothing_is_made_unless_the_client_allows_it(harness: Harness) -> None:
    answer = await harness.ask(asking_for("events", "a!", create=False), 9)
    assert [topic.error_code for topic in answer.topics] == [UNKNOWN, INVALID]
    assert not harness.control.image.topics


@pytest.mark.parametrize(("count", "sliced"), [(SLICE - 1, False), (SLICE, True), (SLICE + 1, True)])
def test_a_slice_of_names_is_looked_up_at_once(harness: Harness, count: int, sliced: bool) -> None:
    names = [f"events-{at}" for at in range(count)]
    context = a_context()
    outcome = handle(asking_for(*names, create=False), context, harness.services[MetadataServices])
    assert isinstance(outcome, Sliced) is sliced


async def test_an_answer_is_kept_only_if_the_image_is_the_same_at_its_end(harness: Harness) -> None:
    await harness.ask(asking_for("events"), 9)
    context = a_context()
    image = harness.control.image
    same = run_through(_all_topics(image, MetadataRequest(None), context, harness.services[MetadataServices]))
    assert isinstance(same, Response) and same.cacheable
    late = _all_topics(image, MetadataRequest(None), context, harness.services[MetadataServices])
    await harness.ask(asking_for("others"), 9)
    changed = run_through(late)
    assert isinstance(changed, Response) and not changed.cacheable


@pytest.mark.parametrize("by_name", [True, False])
async def test_an_answer_during_which_a_partition_went_offline_is_true_by_slice_and_not_kept(
    harness: Harness, by_name: bool
) -> None:
    """Two topics of a slice each; the first partition of both goes offline between the two slices."""
    names = ["first", "second"]
    for name in names:
        await harness.create_topic(name, SLICE)
    context, message = a_context(), asking_for(*names, create=False)
    assert message.topics is not None
    slices = (
        _respond(message.topics, message, context, harness.services[MetadataServices])
        if by_name
        else _all_topics(
            harness.control.image, MetadataRequest(None), context, harness.services[MetadataServices]
        )
    )
    next(slices)
    for name in names:
        log = harness.partitions.log(name, 0)
        assert log is not None
        log.go_offline(OSError(5, "Input/output error"))
    answer = run_through(slices)
    assert isinstance(answer, Response) and not answer.cacheable
    errors = {topic.name: topic.partitions[0].error_code for topic in answer.reply.topics}
    assert errors == {"first": ErrorCode.NONE, "second": STORAGE}
    assert all(not each.error_code for topic in answer.reply.topics for each in topic.partitions[1:])
    again = run_through(
        _all_topics(harness.control.image, MetadataRequest(None), context, harness.services[MetadataServices])
    )
    assert isinstance(again, Response) and again.cacheable
    assert {topic.partitions[0].error_code for topic in again.reply.topics} == {STORAGE}


AUTOMATIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
@pytest.mark.parametrize(("role", "error"), [("viewer", AUTOMATIC), ("editor", 0), ("admin", 0)])
async def test_a_missing_topic_is_created_for_a_client_that_may_create_it(
    tmp_path: Path, role: str, error: int, version: int
) -> None:
    harness = Harness(tmp_path, f"wire.role={role}")
    answer = await harness.ask(asking_for("events", "events"), version)
    assert [topic.error_code for topic in answer.topics] == [error, error]
    assert bool(harness.control.image.topics) is not bool(error)
    harness.close()


async def test_a_client_that_may_not_create_topics_may_ask_for_missing_ones(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "wire.role=viewer")
    answer = await harness.ask(asking_for("events", create=False), 9)
    assert [topic.error_code for topic in answer.topics] == [UNKNOWN]
    harness.close()


async def test_a_super_user_creates_topics_whatever_the_role_of_its_listener(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "wire.role=viewer", "super.users=User:ops")
    ops = Connection()
    ops.principal = "ops"
    answer = await harness.ask(asking_for("events"), 9, connection=ops)
    assert [topic.error_code for topic in answer.topics] == [0]
    harness.close()


@pytest.mark.parametrize("version", [0, 9, 13])
async def test_no_client_creates_topics_of_weir(harness: Harness, version: int) -> None:
    """A consumer may wait for such a topic: Weir creates it with its first record."""
    names = "__weir_x", "__weir_requests", "__weir.requests", "_._weir.x", "___weir_", "_weir_x"
    answer = await harness.ask(asking_for(*names), version)
    assert [topic.error_code for topic in answer.topics] == [UNKNOWN] * 3 + [0] * 3
    assert set(harness.control.image.topics) == set(names[3:])
