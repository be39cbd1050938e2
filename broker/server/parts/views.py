"""The Prometheus page, the task tree, and the views of the console and the REST API."""

import logging

from msgspec.structs import replace

from broker.common.version import VERSION
from broker.controller.rows.broker import ServerInfo
from broker.monitoring.prometheus.page import PrometheusPage
from broker.quotas.remote_use import NO_REMOTE_USE
from broker.security.console_links import ConsoleLink, ConsoleLinkFile
from broker.server.parts.control import ServerMetadata
from broker.server.task_tree import OwnedResources, TaskTree
from broker.views.console import Views
from broker.views.live_quotas import LiveQuotas
from broker.views.live_server import LiveServer
from broker.views.parts import LogParts, ServerParts
from broker.views.topics import LogViews, TopicViews
from broker.views.upstream_views import UpstreamViewSource

logger = logging.getLogger(__name__)


class ServerViews:
    """`info` has the addresses at which the server is reached. `loop_idle` is an instrument of Trio."""

    def __init__(
        self,
        metadata: ServerMetadata,
        parts: ServerParts,
        logs: LogParts | None = None,
        upstream: UpstreamViewSource | None = None,
    ) -> None:
        """`logs` are a broker's; `upstream` is a gateway's."""
        control = metadata.control
        self._socket_server = parts.server
        self._directory = metadata.config.log.dirs[0]
        self._console_link: ConsoleLinkFile | None = None
        self.loop_idle = parts.loop
        self.prometheus = PrometheusPage(
            parts, lambda: control.config.quotas.metrics_max_entities, logs, upstream
        )
        self.task_tree = TaskTree(parts.clock, OwnedResources(parts, metadata.node_id, logs))
        topics = TopicViews(lambda: control.image)
        if logs is not None:
            topics = LogViews(
                lambda: control.image, logs.partitions, logs.groups, logs.cleaner, logs.transactions
            )
        self.info = ServerInfo(metadata.node_id, VERSION, (), "")
        self.views = Views(
            control,
            LiveServer(
                parts,
                topics,
                self.task_tree.rows,
                metadata.config.automq.pipeline_high,
                None if upstream is None else upstream.upstream_of,
            ),
            LiveQuotas(parts, lambda: NO_REMOTE_USE if upstream is None else upstream.shares.remote_use()),
            topics,
            metadata.writer,
            lambda: self.info,
            parts.telemetry,
            upstream,
            None if logs is None else logs.authorizer,
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
