"""The Prometheus page, the task tree, and the views of the console and the REST API."""

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from broker.common.version import VERSION
from broker.monitoring.prometheus.page import PrometheusPage
from broker.monitoring.sources import ClientSources, LogSources
from broker.network.clock import LoopIdle, TrioClock
from broker.network.connection.channel import Channel
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventBuffer
from broker.quotas.use_elsewhere import NOWHERE
from broker.security.acl.authorizer import Authorizer
from broker.security.console_links import ConsoleLink, ConsoleLinkFile
from broker.server.parts.control import ServerMetadata
from broker.server.task_stats import OwnedResources
from broker.server.task_tree import TaskTree
from broker.views.live import LiveViews, TopicViewSource
from broker.views.upstream_views import UpstreamViewSource
from broker.views.views import ServerInfo, Views

logger = logging.getLogger(__name__)


class Upstream(UpstreamViewSource, Protocol):
    """A gateway's `gateway.views.upstream.UpstreamViews`, which a broker does not import."""

    def upstream_of(self) -> Callable[[Channel], tuple[str, int | None]]: ...


class ServerViews:
    """`info` has the addresses at which the server is reached. `loop_idle` is an instrument of Trio."""

    def __init__(
        self,
        metadata: ServerMetadata,
        socket_server: SocketServer,
        clients: ClientSources,
        topics: TopicViewSource,
        clock: TrioClock,
        *,
        logs: LogSources | None = None,
        events: EventBuffer | None = None,
        upstream: Upstream | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`topics` has the topics and groups; `upstream` is a gateway's."""
        control = metadata.control
        self._socket_server = socket_server
        self._directory = metadata.config.log.dirs[0]
        self._console_link: ConsoleLinkFile | None = None
        self.loop_idle = LoopIdle(clock)
        self.prometheus = PrometheusPage(
            clock,
            socket_server,
            self.loop_idle,
            clients,
            lambda: control.config.quotas.metrics_max_entities,
            logs=logs,
            events=events,
            authorizer=authorizer,
            upstream=None if upstream is None else upstream.row,
            gateways=tuple if upstream is None else upstream.shares.gateways,
        )
        owned_resources = OwnedResources(socket_server, self.loop_idle, metadata.node_id, clients, logs)
        self.task_tree = TaskTree(clock, owned_resources)
        live_views = LiveViews(
            clock,
            socket_server,
            clients.quotas,
            topics,
            self.loop_idle,
            self.task_tree.rows,
            clients.retry_storm,
            clients.callbacks,
            metadata.config.automq.pipeline_high,
            None if upstream is None else upstream.upstream_of,
            (lambda: NOWHERE) if upstream is None else upstream.shares.use_elsewhere,
        )
        self.info = ServerInfo(metadata.node_id, VERSION, (), "")
        self.views = Views(
            control, live_views, metadata.writer, lambda: self.info, clients.telemetry, upstream, authorizer
        )

    def update_bootstrap(self) -> None:
        """Update the advertised addresses in `info`."""
        self.info = replace(self.info, endpoints=self._socket_server.client_endpoints())

    def console_started(self, link: ConsoleLink) -> None:
        """Show the console's address, and accept links from `weir console-link` until `close`."""
        self.info = replace(self.info, console=link.url)
        try:
            self._console_link = ConsoleLinkFile(self._directory, link)
        except OSError as error:
            logger.warning(
                "weir console-link cannot make links",
                extra={"directory": self._directory, "reason": str(error)},
            )

    def close(self) -> None:
        if self._console_link is not None:
            self._console_link.close()
