"""A connection that an operator closes is gone, and the audit trail names the operator."""

from pathlib import Path

import trio
from trio.testing import wait_all_tasks_blocked

from broker.common.errors import ErrorCode
from broker.controller.commands import Actor, ChangeOrigin, CloseConnection, Role
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.views.metadata import AuditFilter
from tests.support.machine_speed import WITHIN_S
from tests.support.running import RunningBroker, running_broker
from tests.support.view_rows import connection_rows

ANN = Actor("ann", Role.EDITOR, "10.0.0.1", ChangeOrigin.PAGE)


def connections(broker: RunningBroker) -> list[str]:
    return [row.connection_id for row in connection_rows(broker.server.views)]


async def test_a_closed_connection_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        gone, stays = [await broker.connect(name) for name in ("gone", "stays")]
        for client in (gone, stays):
            await client.ask(ApiVersionsRequest("x", "1"), 3)
        control, views = broker.server.control, broker.server.views
        wanted = next(row.connection_id for row in connection_rows(views) if row.client_id == "gone")
        assert (await control.apply(CloseConnection(wanted), ANN)).ok
        with trio.fail_after(WITHIN_S):
            assert await gone.stream.receive_some() == b""
        await stays.ask(ApiVersionsRequest("x", "1"), 3)
        assert wanted not in connections(broker) and len(connections(broker)) == 1
        (row,) = await views.metadata.audit(AuditFilter(kind="connection"))
        assert (row.actor, row.entity, row.key, row.new) == ("ann", wanted, "closed", "gone")
        assert row.final == "A change of kind connection cannot be undone"
        again = await control.apply(CloseConnection(wanted), ANN)
        assert again.error is ErrorCode.RESOURCE_NOT_FOUND


async def test_a_viewer_closes_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await (await broker.connect()).ask(ApiVersionsRequest("x", "1"), 3)
        (wanted,) = connections(broker)
        viewer = Actor("vi", Role.VIEWER, "10.0.0.1", ChangeOrigin.REST)
        refused = await broker.server.control.apply(CloseConnection(wanted), viewer)
        await wait_all_tasks_blocked()
        assert refused.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED and connections(broker) == [wanted]


async def test_a_broker_starts_again_after_connections_were_closed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await (await broker.connect()).ask(ApiVersionsRequest("x", "1"), 3)
        await broker.server.control.apply(CloseConnection(*connections(broker)), ANN)
        version = broker.server.control.image.version
    async with running_broker(tmp_path) as broker:
        assert broker.server.control.image.version >= version
