"""The Prometheus page, the task tree, and the views of the console and the REST API."""

import logging
from typing import NamedTuple

from msgspec.structs import replace

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RetryStormGate
from broker.common.version import VERSION
from broker.controller.rows.broker import ServerInfo
from broker.monitoring.prometheus.page import PrometheusPage
from broker.network.clock import LoopIdle, TrioClock
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventBuffer
from broker.quotas.client_quotas import ClientQuotas
from broker.security.acl.authorizer import Authorizer
from broker.security.console_links import ConsoleLink, ConsoleLinkFile
from broker.server.parts.control import ServerMetadata
from broker.server.parts.storage import DelayedRequests, ServerStorage
from broker.server.task_stats import OwnedResources
from broker.server.task_tree import TaskTree
from broker.telemetry.state import Telemetry
from broker.views.console import Views
from broker.views.live_quotas import LiveQuotas
from broker.views.live_server import LiveServer
from broker.views.topics import LogViews, TopicViews
from broker.views.upstream_views import ShareViews, UpstreamViewSource

logger = logging.getLogger(__name__)


class LogParts(NamedTuple):
    """The parts that only a server with logs has: a broker, not a gateway."""

    storage: ServerStorage
    delayed: DelayedRequests
    authorizer: Authorizer | None


class ServerViews:
    """`info` has the addresses at which the server is reached. `loop_idle` is an instrument of Trio."""

    def __init__(
        self,
        metadata: ServerMetadata,
        socket_server: SocketServer,
        quotas: ClientQuotas,
        retry_storm: RetryStormGate,
        callbacks: Callbacks,
        telemetry: Telemetry,
        clock: TrioClock,
        *,
        events: EventBuffer | None = None,
        logs: LogParts | None = None,
        upstream: UpstreamViewSource | None = None,
    ) -> None:
        """`logs` are a broker's; `upstream` is a gateway's."""
        control = metadata.control
        storage, delayed, authorizer = logs or (None, None, None)
        topics = TopicViews(lambda: control.image)
        partitions = replication = cleaner = groups = transactions = None
        if storage is not None and delayed is not None:
            partitions, replication = storage.partitions, storage.replication
            cleaner = storage.cleaner.manager
            groups, transactions = delayed.groups.groups, delayed.transactions
            topics = LogViews(lambda: control.image, partitions, groups, cleaner, transactions)
        purgatories = () if delayed is None else delayed.purgatories
        shares = ShareViews() if upstream is None else upstream.shares
        self._socket_server = socket_server
        self._directory = metadata.config.log.dirs[0]
        self._console_link: ConsoleLinkFile | None = None
        self.loop_idle = LoopIdle(clock)
        self.prometheus = PrometheusPage(
            clock,
            socket_server,
            self.loop_idle,
            quotas,
            retry_storm,
            callbacks,
            telemetry,
            lambda: control.config.quotas.metrics_max_entities,
            replication=replication,
            cleaner=cleaner,
            transactions=transactions,
            partitions=partitions,
            purgatories=purgatories,
            events=events,
            authorizer=authorizer,
            upstream=None if upstream is None else upstream.row,
            gateways=shares.gateways,
        )
        owned_resources = OwnedResources(
            socket_server,
            self.loop_idle,
            metadata.node_id,
            callbacks,
            purgatories,
            retry_storm,
            quotas,
            telemetry,
            groups=groups,
            partitions=partitions,
        )
        self.task_tree = TaskTree(clock, owned_resources)
        live = LiveServer(
            clock,
            socket_server,
            quotas,
            topics,
            self.loop_idle,
            self.task_tree.rows,
            callbacks,
            metadata.config.automq.pipeline_high,
            None if upstream is None else upstream.upstream_of,
        )
        live_quotas = LiveQuotas(clock, socket_server, quotas, retry_storm, shares.use_elsewhere)
        self.info = ServerInfo(metadata.node_id, VERSION, (), "")
        self.views = Views(
            control,
            live,
            live_quotas,
            topics,
            metadata.writer,
            lambda: self.info,
            telemetry,
            upstream,
            authorizer,
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
