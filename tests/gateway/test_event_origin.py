"""Where a gateway's events come from: its upstream cluster, its node id, and its own id."""

import re
from pathlib import Path

from trio.testing import MockClock

from tests.support.fake_upstream import CLUSTER_ID, fake_cluster
from tests.support.running_gateway import running_gateway


async def test_a_gateway_names_its_upstream_cluster_and_itself(tmp_path: Path, mock_clock: MockClock) -> None:
    found = []
    for start in ("first", "second"):
        async with (
            fake_cluster(1) as cluster,
            running_gateway(tmp_path / start, cluster.live[0].port, "node.id=7") as gateway,
        ):
            headers = dict(gateway.server.origin.headers())
            assert (headers["cluster"], headers["node"]) == (CLUSTER_ID.encode(), b"7")
            found.append(headers["gateway"])
    assert all(re.fullmatch(rb"7-[0-9a-f]{12}", each or b"") for each in found)
    assert found[0] != found[1]
