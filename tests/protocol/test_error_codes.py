"""The error codes of a response, counted by its schema."""

from typing import Any

import pytest

from broker.api import registry
from broker.protocol import codec
from broker.protocol.error_codes import error_codes, is_error_code
from broker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from broker.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from broker.protocol.messages.heartbeat import HeartbeatResponse
from broker.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from broker.protocol.schema import Field, Struct


def produced(*codes: int) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index, code) for index, code in enumerate(codes)]
    return ProduceResponse([TopicProduceResponse("t", partition_responses=partitions)])


@pytest.mark.parametrize(("codes", "found"), [((), {}), ((0, 0), {}), ((3, 0, 3, 56), {3: 2, 56: 1})])
def test_every_partition_counts(codes: tuple[int, ...], found: dict[int, int]) -> None:
    assert error_codes(0, 9)(produced(*codes)) == found


def test_the_answer_counts_and_what_is_in_it() -> None:
    partition = PartitionData(0, 1, 0)
    reply = FetchResponse(error_code=70, responses=[FetchableTopicResponse("t", partitions=[partition])])
    assert error_codes(1, 12)(reply) == {70: 1, 1: 1}


def test_a_field_that_the_version_lacks_does_not_count() -> None:
    assert error_codes(1, 6)(FetchResponse(error_code=70)) == {}
    assert error_codes(1, 7)(FetchResponse(error_code=70)) == {70: 1}


def test_a_flat_answer() -> None:
    assert error_codes(12, 4)(HeartbeatResponse(error_code=27)) == {27: 1}
    assert error_codes(12, 4)(HeartbeatResponse()) == {}


def test_the_reason_why_settings_are_missing_is_no_error() -> None:
    result = CreatableTopicResult("t", error_code=0, topic_config_error_code=29)
    assert error_codes(19, 7)(CreateTopicsResponse(topics=[result])) == {}


def error_fields(struct: type[Struct], version: int) -> list[Field]:
    fields = [f for f in struct.FIELDS if f.since <= version <= f.until]
    below = [each for f in fields if not isinstance(f.type, str) for each in error_fields(f.type, version)]
    return [f for f in fields if is_error_code(f)] + below


@pytest.mark.parametrize("api", list(registry.load()), ids=lambda api: api.key.name)
def test_every_field_of_every_answer_that_is_served_is_found(api: Any) -> None:
    """Each error field has its own code, at any depth."""
    for version in range(api.min_version, api.max_version + 1):
        struct = codec.response_class(api.key)
        numbers = iter(range(1, 100))

        def filled(kind: type[Struct], version: int = version, numbers: Any = numbers) -> Struct:
            made = kind()
            for field in kind.FIELDS:
                if not field.since <= version <= field.until:
                    continue
                if is_error_code(field):
                    setattr(made, field.name, next(numbers))
                elif not isinstance(field.type, str):
                    inner = filled(field.type)
                    setattr(made, field.name, [inner] if field.array else inner)
            return made

        found = error_codes(api.key, version)(filled(struct))
        assert sorted(found) == list(range(1, len(error_fields(struct, version)) + 1))
