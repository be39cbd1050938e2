"""ApiVersions in which a client states its node, before upstream brokers of any age. (KIP-1242)"""

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from broker.common.errors import ErrorCode
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.gateway.api_versions import Forwardable, Versions, forwardable, judged
from broker.gateway.apis.api_versions import KEPT_ANSWERS, Answers, ClientsView
from broker.metadata.actor import BROKER_ITSELF
from broker.protocol import codec
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from tests.gateway.frames import CORRELATION_ID, frame_of, read
from tests.gateway.test_hostile_clients import attacked
from tests.support.hostile import is_closed_soon

FEATURE = FinalizedFeatureKey("metadata.version", 9, 9)


def upstream(last: int, asked: list[int], throttle_ms: int = 0) -> Any:
    """A broker that knows versions up to `last`; -1: none. `asked` receives those it is asked in."""

    def answer(version: int, correlation_id: int) -> bytes:
        asked.append(version)
        reply = ApiVersionsResponse(
            api_keys=[ApiVersion(ApiKey.API_VERSIONS, 0, last), ApiVersion(ApiKey.METADATA, 0, 13)],
            finalized_features=[FEATURE],
            finalized_features_epoch=7,
            throttle_time_ms=throttle_ms,
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


class View:
    """A gateway that answers telemetry; `made` counts the answers that were made of the upstream broker's."""

    def __init__(self) -> None:
        self.made = 0
        self.answers = Answers(
            ClientsView(lambda: None, lambda _: None, self.local, dict[int, Versions], self.versions_of)
        )

    def local(self) -> dict[int, Versions]:
        self.made += 1
        return {ApiKey.PUSH_TELEMETRY: (0, 0)}

    def versions_of(self, listener: str) -> Forwardable:
        return judged if listener == "JUDGED" else forwardable

    def offered(self, *apis: ApiVersion, listener: str = "PLAINTEXT", asked: int = 4) -> dict[int, Versions]:
        reply = ApiVersionsResponse(api_keys=list(apis), finalized_features=[FEATURE])
        whole = self.answers.frame(listener, 5, asked, frame_of(reply, asked))
        assert whole is not None
        found = read(whole, ApiKey.API_VERSIONS, 5)
        assert found.finalized_features == ([FEATURE] if asked >= 3 else [])
        return {each.api_key: (each.min_version, each.max_version) for each in found.api_keys}


def test_an_answer_is_made_once_for_each_listener_and_answer_of_the_upstream_broker() -> None:
    view = View()
    fetch = ApiVersion(ApiKey.FETCH, 4, 18)
    telemetry = {ApiKey.PUSH_TELEMETRY: (0, 0)}
    for _ in range(2):
        assert view.offered(fetch) == {ApiKey.FETCH: (4, 15)} | telemetry
        assert view.offered(fetch, listener="JUDGED") == {ApiKey.FETCH: (4, 14)} | telemetry
        assert view.offered(fetch, asked=0) == {ApiKey.FETCH: (4, 15)} | telemetry
        assert view.offered(ApiVersion(ApiKey.FETCH, 4, 13)) == {ApiKey.FETCH: (4, 13)} | telemetry
    assert view.made == 4


def test_a_kept_answer_has_the_bytes_of_a_new_one_and_the_correlation_id_of_its_request() -> None:
    view = View()
    reply = ApiVersionsResponse(api_keys=[ApiVersion(ApiKey.METADATA, 0, 13)], throttle_time_ms=70)
    upstream = frame_of(reply, 4)
    new = view.answers.frame("PLAINTEXT", 5, 4, upstream)
    again = view.answers.frame("PLAINTEXT", 5, 4, bytearray(b"\0\0\0\7" + upstream[4:]))
    assert new is not None and again == new[:4] + b"\0\0\0\7" + new[8:]
    assert new[4:8] == CORRELATION_ID.to_bytes(4, "big")
    assert new[4:] == frame_of(view.answers.message("PLAINTEXT", 4, upstream), 5)


@pytest.mark.parametrize(("others", "made"), [(-1, 0), (0, 1)])
def test_so_many_answers_are_kept(others: int, made: int) -> None:
    """The least recently used one makes way for one more than KEPT_ANSWERS."""
    view = View()
    for last in range(KEPT_ANSWERS + 1 + others):
        view.offered(ApiVersion(ApiKey.HEARTBEAT, 0, last))
    before = view.made
    view.offered(ApiVersion(ApiKey.HEARTBEAT, 0, 0))
    assert view.made - before == made


def test_an_error_is_not_answered_from_what_is_kept() -> None:
    frame = frame_of(ApiVersionsResponse(ErrorCode.INVALID_REQUEST), 4)
    assert View().answers.frame("PLAINTEXT", 5, 4, frame) is None


@pytest.mark.parametrize("upstream_ms", [0, 3_000_000])
async def test_a_client_over_its_request_quota_is_told_the_longer_throttle_time(
    tmp_path: Path, mock_clock: MockClock, upstream_ms: int
) -> None:
    """A limit of 1 % is 100 ms of the quota's window of 10 s; 110 ms are repaid after one more second."""
    async with attacked(tmp_path) as target:
        rule = QuotaAlteration((("client-id", "greedy"),), (QuotaOp("request_percentage", 1.0),))
        await target.gateway.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
        client = await target.gateway.connect("greedy")
        target.node.raw[ApiKey.API_VERSIONS] = upstream(4, [], upstream_ms)
        first = await client.ask(ApiVersionsRequest("suite", "1"), 5)
        assert first.throttle_time_ms == upstream_ms
        (channel,) = target.gateway.server.socket_server.channels()
        channel.unrecorded_ns = 110_000_000
        answer = await client.ask(ApiVersionsRequest("suite", "1"), 5)
        assert answer.throttle_time_ms == max(upstream_ms, 1_000)
        assert answer.api_keys == first.api_keys and channel.throttles == 1
        del target.node.raw[ApiKey.API_VERSIONS]
