"""Lag alerts of a gateway while it cannot read the lag: of a group, of one node's groups, of any."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.list_groups import ListGroupsResponse
from broker.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from broker.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tests.gateway.contents.test_streams_groups import console, got
from tests.support.fake_upstream import FakeNode
from tests.support.machine_speed import WITHIN_S

SETTINGS = ("alerts.evaluation.interval.ms=1000", "gateway.upstream.views.max.age.ms=1000")
Break = Callable[[FakeNode], None]


def refuses_offsets(node: FakeNode) -> None:
    refusal = OffsetFetchResponseGroup("app", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    node.answers[ApiKey.OFFSET_FETCH] = lambda _request: OffsetFetchResponse(groups=[refusal])


def lists_nothing(node: FakeNode) -> None:
    node.answers[ApiKey.LIST_GROUPS] = lambda _request: ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


def stops(node: FakeNode) -> None:
    node.stop()


async def alerts(http: httpx.AsyncClient, fits: Callable[[list[Any]], object]) -> list[Any]:
    """Ask until the alerts fit."""
    with trio.fail_after(WITHIN_S):
        while not fits(items := (await got(http, "alerts"))["items"]):  # noqa: ASYNC110 - nothing announces it
            await trio.sleep(0.05)
    return list(items)


@pytest.mark.parametrize("breaks", [refuses_offsets, lists_nothing, stops], ids=lambda each: each.__name__)
async def test_an_alert_fires_on_and_says_since_when_its_value_is_unknown(
    tmp_path: Path, breaks: Break
) -> None:
    async with console(tmp_path, *SETTINGS) as (node, http):
        answers = dict(node.answers)
        rule = {"condition": "lag", "threshold": 9}
        made = await http.put("/api/v1/alert-rules/late", json=rule)
        assert made.status_code in (200, 201), made.text
        (alert,) = await alerts(http, bool)
        assert (alert["state"], alert["value"], alert["unknown_since"]) == ("firing", 10, None)
        breaks(node)
        (alert,) = await alerts(http, lambda items: items[0]["unknown_since"] is not None)
        since = alert["unknown_since"]
        # Further evaluations, each after a reading that failed, resolve nothing.
        requests = len(node.requests)
        if breaks is not stops:
            await node.wait_until(lambda: len(node.requests) > requests + 8)
        (alert,) = (await got(http, "alerts"))["items"]
        assert (alert["state"], alert["value"], alert["unknown_since"]) == ("firing", 10, since)
        node.answers.update(answers)
        node.answers[ApiKey.LIST_OFFSETS] = lambda _request: ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse("orders", [ListOffsetsPartitionResponse(0, offset=2)])]
        )
        if breaks is stops:
            await node.start()
        await alerts(http, lambda items: not items)
        events = (await got(http, "alerts:history"))["items"]
        assert [(each["event"], each["value"]) for each in events] == [("resolved", 0), ("firing", 10)]
