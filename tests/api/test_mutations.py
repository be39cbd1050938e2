"""The controller mutation quota of its three APIs and of automatic creation.

A rate of 2 over ten windows accumulates 20. Thirty partitions leave a debt of 10, which takes 5 s; thirty
more 20 s.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.api.requests.outcome import Response
from broker.common.errors import ErrorCode
from broker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.protocol.messages.delete_topics import DeleteTopicsRequest
from broker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.protocol.schema import Message
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind
from tests.api.harness import Harness

NONE, EXCEEDED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED
OPERATOR = "operator"
CLIENT = Entity(client_id="test")


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path, "controller.quota.window.num=10")
    harness.quotas.apply(CLIENT, "controller_mutation_rate", 2)
    yield harness
    harness.close()


def create(partitions: int = 30, *, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [CreatableTopic(name, partitions, 1) for name in ("a", "b")]
    return CreateTopicsRequest(topics, validate_only=validate_only)


EXTEND = CreatePartitionsRequest([CreatePartitionsTopic(name, 31) for name in ("a", "b")])
DELETE = DeleteTopicsRequest(topic_names=["a", "b"])

CASES = [
    pytest.param(None, create(), 6, id="CreateTopics"),
    pytest.param(1, EXTEND, 3, id="CreatePartitions"),
    pytest.param(30, DELETE, 5, id="DeleteTopics"),
]
"""The topics' initial partitions, the request for 30 changes, and the first strict version."""


async def put(
    harness: Harness, message: Message, version: int | None = None, **more: str
) -> tuple[list[int], int]:
    """Return the errors of the topics, and the throttle time in the response, which mutes the connection."""
    asking = await harness.put(message, version, **more)  # type: ignore[arg-type]
    reply = harness.answer(asking)
    assert isinstance(asking.outcome, Response)
    throttle = asking.outcome.throttle
    assert reply.throttle_time_ms == (0 if throttle is None else throttle.throttle_ms)
    assert throttle is None or throttle.kind is QuotaKind.CONTROLLER_MUTATION
    (answers,) = (getattr(reply, name) for name in ("topics", "results", "responses") if hasattr(reply, name))
    return [each.error_code for each in answers], reply.throttle_time_ms


async def prepare(harness: Harness, partitions: int | None) -> None:
    if partitions is not None:
        assert await put(harness, create(partitions), client_id=OPERATOR) == ([NONE, NONE], 0)


@pytest.mark.parametrize(("before", "message", "strict_from"), CASES)
async def test_a_strict_version_refuses_the_second_topic_and_the_retry_goes_through(
    limited: Harness, before: int | None, message: Message, strict_from: int
) -> None:
    await prepare(limited, before)
    assert await put(limited, message, strict_from) == ([NONE, EXCEEDED], 5_000)
    limited.clock.advance(4_500)
    assert (await put(limited, message, strict_from))[0][1] == EXCEEDED
    limited.clock.advance(500)
    (_, second), throttle_ms = await put(limited, message, strict_from)
    assert (second, throttle_ms) == (NONE, 0)


@pytest.mark.parametrize(("before", "message", "strict_from"), CASES)
async def test_an_older_version_is_served_and_waits(
    limited: Harness, before: int | None, message: Message, strict_from: int
) -> None:
    await prepare(limited, before)
    assert await put(limited, message, strict_from - 1) == ([NONE, NONE], 20_000)


@pytest.mark.parametrize(("before", "message", "strict_from"), CASES)
async def test_without_a_quota_both_are_served_at_once(
    harness: Harness, before: int | None, message: Message, strict_from: int
) -> None:
    await prepare(harness, before)
    assert await put(harness, message, strict_from) == ([NONE, NONE], 0)


async def test_a_refused_topic_is_not_written(limited: Harness) -> None:
    await put(limited, create())
    assert set(limited.control.image.topics) == {"a"}


async def test_a_wrong_request_is_not_charged(limited: Harness) -> None:
    wrong = CreateTopicsRequest([CreatableTopic(name, 30, 3) for name in ("a", "b", "c")])
    errors, throttle_ms = await put(limited, wrong)
    assert (errors, throttle_ms) == ([ErrorCode.INVALID_REPLICATION_FACTOR] * 3, 0)
    assert await put(limited, create(10)) == ([NONE, NONE], 0)


@pytest.mark.parametrize(
    ("partitions", "answers", "throttle_ms"),
    [(9, [NONE] * 2, 0), (10, [NONE] * 2, 0), (11, [NONE] * 2, 1_000)],
)
async def test_twenty_are_saved_up(
    limited: Harness, partitions: int, answers: list[int], throttle_ms: int
) -> None:
    """A debt of two is repaid in one second; older versions report it, newer ones once they refuse."""
    assert await put(limited, create(partitions), 5) == (answers, throttle_ms)


async def test_validation_is_charged_too(limited: Harness) -> None:
    assert await put(limited, create(validate_only=True), 6) == ([NONE, EXCEEDED], 5_000)
    assert not limited.control.image.topics


async def test_time_that_the_change_took_is_not_waited_for_again(limited: Harness) -> None:
    limited.control.subscribe(lambda *_: limited.clock.advance(1_200))
    assert await put(limited, create(), 6) == ([NONE, EXCEEDED], 3_800)


async def test_automatic_creation_is_never_refused_and_is_owed(limited: Harness) -> None:
    for number in range(3):
        request = MetadataRequest([MetadataRequestTopic(name=f"made-{number}-{each}") for each in range(10)])
        reply = await limited.ask(request)
        assert {topic.error_code for topic in reply.topics} == {NONE}
        assert reply.throttle_time_ms == 0
    assert await put(limited, create(1), 6) == ([EXCEEDED, EXCEEDED], 5_000)
