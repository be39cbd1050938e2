"""How many system calls the gateway makes to forward small requests."""

from pathlib import Path

import pytest

from broker.protocol.api_key import ApiKey
from broker.protocol.messages.fetch import FetchRequest, FetchResponse
from tests.gateway.test_upstream_faults import accepted
from tests.support.fake_upstream import fake_cluster
from tests.support.produce import PRODUCE_VERSION, produce_request_of
from tests.support.running_gateway import running_gateway
from tests.support.system_calls import counted, needs_interpreted

pytestmark = needs_interpreted


@pytest.mark.parametrize("size", [200, 16_000])
async def test_a_small_request_is_one_receive_and_one_send_each_way(tmp_path: Path, size: int) -> None:
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.answers[ApiKey.PRODUCE] = accepted
        async with running_gateway(tmp_path, node.port) as gateway:
            client = await gateway.connect()
            request = produce_request_of(size, "app")
            for _ in range(3):
                await client.ask(request, PRODUCE_VERSION)
            with counted() as calls:
                await client.ask(request, PRODUCE_VERSION)
            assert {name: count for name, count in calls.items() if name != "poll"} == {
                "recv_into": 2,
                "send": 2,
            }


async def test_a_fetch_that_is_given_a_rack_is_one_receive_and_one_send_too(tmp_path: Path) -> None:
    async with fake_cluster(1) as cluster:
        (node,) = cluster.live
        node.versions[ApiKey.FETCH] = (4, 17)
        node.answers[ApiKey.FETCH] = lambda _request: FetchResponse(responses=[])
        racks = "gateway.client.racks=127.0.0.1:rack-a", "gateway.client.racks.software=*"
        async with running_gateway(tmp_path, node.port, *racks) as gateway:
            client = await gateway.connect()
            for _ in range(3):
                await client.ask(FetchRequest(), 15)
            with counted() as calls:
                await client.ask(FetchRequest(), 15)
            assert node.requests[-1].rack_id == "rack-a"
            assert {name: count for name, count in calls.items() if name != "poll"} == {
                "recv_into": 2,
                "send": 2,
            }
