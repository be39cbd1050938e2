"""ApiVersions in which a client states its node, before upstream brokers of any age. (KIP-1242)"""

from pathlib import Path
from typing import Any

import pytest

from broker.common.errors import ErrorCode
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from tests.gateway.test_hostile_clients import attacked
from tests.support.hostile import is_closed_soon

FEATURE = FinalizedFeatureKey("metadata.version", 9, 9)


def upstream(last: int, asked: list[int]) -> Any:
    """A broker that knows versions up to `last`; -1: none. `asked` receives those it is asked in."""

    def answer(version: int, correlation_id: int) -> bytes:
        asked.append(version)
        reply = ApiVersionsResponse(
            api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, last), ApiVersion(ApiKey.METADATA, 0, 13)],
            finalized_features=[FEATURE],
            finalized_features_epoch=7,
        )
        if version > last:
            reply = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, reply.api_keys[:1])
            version = 0
        parts = codec.encode_response(ApiKey.API_VERSIONS, version)(reply, correlation_id)
        return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]

    return answer


@pytest.mark.parametrize(("last", "asked"), [(5, [4]), (4, [4]), (3, [4, 3]), (2, [4, 3, 0]), (0, [4, 3, 0])])
async def test_an_older_upstream_broker_is_asked_in_a_version_that_it_knows(
    tmp_path: Path, last: int, asked: list[int]
) -> None:
    async with attacked(tmp_path) as target:
        found: list[int] = []
        client = await target.gateway.connect()
        target.node.raw[ApiKey.API_VERSIONS] = upstream(last, found)
        answer = await client.ask(ApiVersionsRequest("suite", "1"), 5)
        offered = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert (answer.error_code, found) == (ErrorCode.NONE, asked)
        assert (offered[ApiKey.API_VERSIONS], offered[ApiKey.METADATA]) == ((0, 5), (0, 13))
        assert answer.finalized_features == ([FEATURE] if last >= 3 else [])
        del target.node.raw[ApiKey.API_VERSIONS]


async def test_the_refusal_of_every_version_is_passed_on(tmp_path: Path) -> None:
    async with attacked(tmp_path) as target:
        found: list[int] = []
        client = await target.gateway.connect()
        target.node.raw[ApiKey.API_VERSIONS] = upstream(-1, found)
        await client.send(ApiVersionsRequest("suite", "1"), 5)
        correlation_id, answer = await client.receive(ApiKey.API_VERSIONS, 5)
        assert (correlation_id, answer.error_code) == (1, ErrorCode.UNSUPPORTED_VERSION)
        assert found == [4, 3, 0]
        del target.node.raw[ApiKey.API_VERSIONS]


async def test_a_damaged_answer_ends_the_connection(tmp_path: Path) -> None:
    async with attacked(tmp_path) as target:
        client = await target.gateway.connect()
        target.node.raw[ApiKey.API_VERSIONS] = lambda _version, number: (
            b"\0\0\0\6" + number.to_bytes(4, "big") + b"\0\0"
        )
        await client.send(ApiVersionsRequest("suite", "1"), 5)
        assert await is_closed_soon(client)
        del target.node.raw[ApiKey.API_VERSIONS]
