"""All that the console and the REST API read, in parts. Made by `server`, handed to `webui`.

Rows are built on request, never while a client waits. Independent of HTML, JSON and Prometheus.
"""

from collections.abc import Callable, Mapping

from broker.controller.commands import EntityPairs
from broker.controller.control import Committer, Control
from broker.controller.rows.broker import BrokerMetrics, DiskRow, Overview, ServerInfo
from broker.controller.rows.upstream import GatewaySums
from broker.metadata.image import QuotaEntry, Topic, is_internal
from broker.quotas.entity import IP
from broker.security.acl.authorizer import Authorizer
from broker.telemetry.state import Telemetry
from broker.views.acls import AclViews
from broker.views.client_telemetry import ClientTelemetry
from broker.views.disks import disk_rows
from broker.views.live_quotas import LiveQuotas
from broker.views.live_server import LiveServer
from broker.views.metadata import DelegationTokenViews, MetadataViews
from broker.views.quota_views import QuotaViews
from broker.views.readings import Readings
from broker.views.topics import TopicViews
from broker.views.upstream_views import ShareViews, UpstreamViewSource


class Views:
    """Reading needs the role viewer, which authentication has checked.

    `upstream` is a gateway's: None at a broker. `shares` has the other gateways that share limits; it is
    empty unless there are some. `topics` has the topics, groups and transactions: at a gateway those of its
    upstream cluster, as `readings` has last read them.
    """

    def __init__(
        self,
        control: Control,
        live: LiveServer,
        live_quotas: LiveQuotas,
        topics: TopicViews,
        committer: Committer,
        server_info: Callable[[], ServerInfo],
        telemetry: Telemetry,
        upstream: UpstreamViewSource | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`authorizer` is a broker's, if it has one."""
        self.live = live
        self.topics = topics
        self.server_info = server_info
        self.upstream = upstream
        self.shares = ShareViews() if upstream is None else upstream.shares
        contents = None if upstream is None else upstream.contents
        self.readings = Readings() if contents is None else contents.readings
        self.metadata = MetadataViews(control, committer) if contents is None else contents.metadata
        self.quotas = QuotaViews(control, live_quotas, self.shares)
        self.acls = AclViews(lambda: control.image, authorizer) if contents is None else contents.acls
        self.delegation_tokens = DelegationTokenViews(
            lambda: control.image, lambda: bool(control.config.security.delegation_token_secret_key)
        )
        self.client_telemetry = ClientTelemetry(lambda: control.image, telemetry)
        self._control = control
        self._rule_counts: tuple[Mapping[EntityPairs, QuotaEntry], int] = ({}, 0)
        self._topic_counts: tuple[Mapping[str, Topic], int, int] = ({}, 0, 0)

    @property
    def is_gateway(self) -> bool:
        return self.upstream is not None

    def overview(self) -> Overview:
        image, info, metrics = self._control.image, self.server_info(), self.live.metrics()
        others = self.shares.others()
        ip_quota_rules = self._ip_quota_rules()
        user_topics, partitions = self._count_topics()
        return Overview(
            cluster_id=image.cluster_id,
            node_id=info.node_id,
            software_version=info.software_version,
            bootstrap=info.bootstrap,
            console=info.console,
            topics=len(image.topics),
            user_topics=user_topics,
            partitions=partitions,
            quota_rules=len(image.quotas) - ip_quota_rules,
            ip_quota_rules=ip_quota_rules,
            metrics=metrics,
            upstream=None if self.upstream is None else self.upstream.summary(),
            gateways=None if others is None else all_gateways(metrics, others),
        )

    def disks(self) -> list[DiskRow]:
        """Return the volumes of the log directories. Slow where a disk is: for a worker thread."""
        return disk_rows(self._control.config.log.dirs)

    def _ip_quota_rules(self) -> int:
        """Count the rules for addresses, once for each state of the rules: 10,000 take a millisecond."""
        quotas = self._control.image.quotas
        if quotas is not self._rule_counts[0]:
            self._rule_counts = quotas, sum(entity[0][0] == IP for entity in quotas)
        return self._rule_counts[1]

    def _count_topics(self) -> tuple[int, int]:
        """Count the topics of users, and the partitions of all topics, once for each state of the topics."""
        topics = self._control.image.topics
        if topics is not self._topic_counts[0]:
            own = sum(map(is_internal, topics))
            partitions = sum(topic.partitions for topic in topics.values())
            self._topic_counts = topics, len(topics) - own, partitions
        return self._topic_counts[1:]


def all_gateways(own: BrokerMetrics, others: GatewaySums) -> GatewaySums:
    """Return the sums of all gateways, the one with the metrics `own` included."""
    return GatewaySums(
        others.gateways + 1,
        others.connections + own.connections,
        others.throttled + own.throttled,
        others.bytes_in_per_s + own.bytes_in_per_s,
        others.bytes_out_per_s + own.bytes_out_per_s,
        others.requests_per_s + own.requests_per_s,
    )
