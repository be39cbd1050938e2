"""Builds all services of one gateway and connects them. Starts no task.

Called by `app`, which runs them as it runs a broker. A gateway has the network, quotas, telemetry and console
of a broker, and no logs and groups: those are the upstream cluster's.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import trio
from msgspec.structs import replace

from broker.api import registry
from broker.api.requests.delayed_operations import DelayedFetches, DelayedProduce
from broker.api.requests.retry_storm import RetryStormGate
from broker.api.security.client_security import ClientSecurity
from broker.common.errors import ConfigError
from broker.config.load import Configuration
from broker.config.sections import SecurityConfig, UpstreamConfig
from broker.config.sections.gateway import check_node_ports
from broker.config.table import BrokerConfig
from broker.controller.client_quotas import plan_client_quotas
from broker.controller.commands import AlterClientQuotas, DrainGateway
from broker.controller.control import Committer, plan_drain
from broker.gateway.apis import api_versions
from broker.gateway.apis.api_versions import ClientsView
from broker.gateway.apis.mutations import MutationServices
from broker.gateway.apis.partition_counts import PartitionCounts
from broker.gateway.apis.registry import LISTS_CLIENT_METRICS, add_apis
from broker.gateway.apis.roles import Roles
from broker.gateway.channel import GatewayChannel
from broker.gateway.client_racks import ClientRacks
from broker.gateway.contents.contents import ClusterContents
from broker.gateway.draining.drain import Drain
from broker.gateway.draining.elsewhere import Elsewhere
from broker.gateway.event_topics import UpstreamTopics
from broker.gateway.forwarder import ForwardLimits
from broker.gateway.node_ports import NodePorts
from broker.gateway.node_request_time import NodeRequestTime
from broker.gateway.node_scope import NodeThrottling, QuotasByNode
from broker.gateway.own_topics import OwnTopics
from broker.gateway.processor import GatewayProcessor, ListenerForwarding
from broker.gateway.revocations import Revocations
from broker.gateway.routes import ForwardRoutes
from broker.gateway.sharing.connection_lists import ConnectionLists
from broker.gateway.sharing.connections import SharedConnections
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.metadata_log import MetadataLog
from broker.gateway.sharing.own_summaries import OwnSummaries
from broker.gateway.sharing.signing import ClusterKeys, Records, SignedRecords
from broker.gateway.sharing.summary import ListenerNodes, Summary
from broker.gateway.sharing.task import SHARES_TIMEOUT_MS, SharingTask
from broker.gateway.sharing.topic_log import METADATA_TOPIC, SHARES_TOPIC, TopicLog
from broker.gateway.sharing.views import SharedLimits, Summaries
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.connect import UpstreamSocket, open_as, open_connection
from broker.gateway.upstream.errors import Reason, ReconnectBackoff, UpstreamError
from broker.gateway.upstream.identity import ClusterIdentity
from broker.gateway.upstream.login import LoginRenewal
from broker.gateway.upstream.mapped import MappedPrincipals
from broker.gateway.upstream.principals import OwnPrincipal
from broker.gateway.upstream.security import UpstreamSecurity, check_credentials
from broker.gateway.upstream.tokens import TokenPrincipals
from broker.gateway.upstream_quotas import UpstreamQuotas
from broker.gateway.upstream_views import UpstreamViews
from broker.log.background_jobs import Flush
from broker.metadata.changes import AuditFilter
from broker.metadata.store import MetadataStore
from broker.network.clock import TrioClock
from broker.network.handling.handler_pool import Completion
from broker.network.metadata_writer import MetadataWriter
from broker.network.reaper import Reaper
from broker.network.requests.request_time import RequestTime
from broker.network.server_factory import KAFKA
from broker.network.socket_server import SocketServer
from broker.network.supervisor import TaskStarter
from broker.network.throttling import PipelinedThrottling, Throttling
from broker.partitions.event_log import EventOrigin
from broker.protocol.api_key import NAMES, ApiKey
from broker.purgatory.purgatory import Purgatory
from broker.security.delegation_tokens import DelegationTokens
from broker.server.gateway_processes import drain_on_signal, drain_siblings
from broker.server.parts.control import (
    ServerMetadata,
    ServerTelemetry,
    closing_on_failure,
    quota_callback,
    retry_storm_reaper,
)
from broker.server.server import Server

TELEMETRY_APIS: Final = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
QUOTA_APIS: Final = (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS)
LOGIN_APIS: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
CREDENTIAL_APIS: Final = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
TOKEN_APIS: Final = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
)
"""Refused by the gateway where it logs its clients in: upstream, a client would get the gateway's tokens."""

UPSTREAM: Final = "upstream"

FOLLOWED_WITHIN_S: Final = 5.0
"""How long a start waits for the log of all gateways; without it the last known rules hold."""

ANNOUNCED_WITHIN_S: Final = 3.0
"""How long connections wait to be accepted because the first report is not written; ours."""

KNOWN_WITHIN_MS: Final = 10_000
"""How long a gateway is not ready because its first report is not written; ours."""

ID_DIGITS: Final = 12
"""Random digits of a gateway's id, which is another one after each start."""

SHARES_CONFIGS: Final = {"cleanup.policy": "compact,delete", "retention.ms": "600000", "segment.ms": "600000"}
"""Reports count for seconds."""


class GatewayServer(Server):
    """The parts of one gateway. Raises ConfigError or OSError if they cannot be built."""

    def __init__(self, configuration: Configuration, clock: TrioClock) -> None:
        self.clock = clock
        _check_authorizer(configuration.config.security)
        callback = quota_callback(configuration, clock)

        self._id = f"{configuration.config.broker.node_id}-{uuid4().hex[:ID_DIGITS]}"
        self._connect_upstream(configuration)
        self._cluster_keys = _cluster_keys(configuration.config)
        self._records: dict[str, Records] = {}
        metadata = ServerMetadata(configuration, clock, self._committer(configuration))
        with closing_on_failure(metadata.close):
            shared = metadata.config.quotas.scope == "cluster"
            super().__init__(metadata, callback, clock, shared=shared)
            self._build(configuration)

    def _build(self, configuration: Configuration) -> None:
        """Build what needs the metadata."""
        clock = self.clock
        if self.metadata_log is not None:
            self.metadata_log.attach(self.control.adopt, self.control.check_adoptable)
        config = self.config
        self._upstream_security.configure(config.upstream)
        self._principals = self._make_principals(config)
        self._renewal = LoginRenewal(config.upstream, self._principals, self.cluster.doubt_login)
        self.security = ClientSecurity(
            config.security, is_judged=lambda listener: not self._logs_in_upstream(listener)
        )

        self._backoffs: dict[int | None, ReconnectBackoff] = {}
        self.event_topics = UpstreamTopics(self.client, lambda: self.control.config)
        self.origin = EventOrigin(config.broker.node_id, lambda: self.cluster.expected_id or "", self._id)
        by_node = config.quotas.scope == "broker"
        self._by_node = QuotasByNode(self.quotas, self.cluster.node_at) if by_node else None
        self.mode = replace(
            KAFKA,
            processor=partial(GatewayProcessor, forwarding=self._forwarding),
            throttling=self._make_throttling,
            request_time=NodeRequestTime if by_node else RequestTime,
        )
        self.callbacks = self._make_callbacks()
        self.retry_storm = RetryStormGate(self.callbacks, clock)
        self.telemetry = ServerTelemetry(
            configuration,
            config.telemetry,
            self.event_topics,
            self.callbacks,
            self.deliver,
            clock,
            self.origin,
        )

        self.registry = _local_apis(config)
        self.registry.add(api_versions.entry(self._clients_view()))
        self._own_topics = OwnTopics(waits=config.quotas.scope == "cluster")
        self._own_topics.changed = self._reconsider_topics
        self._answered = add_apis(
            self.registry,
            config,
            Roles(self.security),
            lambda: self.quotas.mutation.active,
            lambda listener, node_id: self.node_ports.advertised(listener, node_id),
            self._own_topics,
        )
        self._always_answered = self.registry.without(self._answered)
        self._routes: dict[str, ForwardRoutes] = {}
        self._racks = ClientRacks(config.gateway.client_racks, config.gateway.client_racks_software)
        self.socket_server = self._start_network()
        self.socket_server.on_renewed_metrics(self._renew_metrics)
        self.node_ports = NodePorts(
            config.gateway,
            config.network,
            self.socket_server,
            lambda: self.cluster.nodes,
            self.cluster.refresh,
        )
        self.cluster.on_change(self.node_ports.update)
        self._summaries: Summaries | None = None
        self._member: SharingMember | None = None
        self._made_ms = clock.ms()
        self.leaving = self._make_drain()
        self.sharing: SharingTask | None = None
        shares: SharedLimits | None = None
        if config.quotas.scope == "cluster":
            self.sharing, shares = self._share_limits()
        self.events = self._make_events(self.event_topics, self.event_topics.append, self.origin)
        self.contents = ClusterContents(
            self.client,
            lambda: self.cluster.nodes,
            self._controller,
            lambda: self._has_upstream,
            self.control,
            self.metadata.writer,
            config,
            clock,
            logs_in=any(
                not self._logs_in_upstream(each.name) for each in config.network.resolved_listeners()
            ),
        )
        self.upstream_views = UpstreamViews(
            clock,
            lambda: self.control.config,
            self.cluster,
            self.node_ports,
            self.socket_server,
            self.event_topics,
            [NAMES[entry.key] for entry in self._always_answered if entry.key != ApiKey.API_VERSIONS],
            self.contents,
            shares,
            self._records,
            drain=self.leaving.row,
        )
        self._make_views(self.event_topics, upstream=self.upstream_views)
        self._follow_metadata()
        self.server_quotas.usage.resume()
        self._follow_settings()
        self.followed = self._upstream_quotas() if config.gateway.quotas == UPSTREAM else None

    @property
    def is_replicated(self) -> bool:
        """Whether changes of the metadata need more than this process."""
        return self.metadata_log is not None

    @property
    def is_ready(self) -> bool:
        """Whether the upstream cluster has answered, and is the expected one, and the gateway is not drained.
        An outage later is no reason to send clients elsewhere: all gateways have it.
        """
        return self._has_upstream and self._is_known and not self.leaving.has_begun

    @property
    def _is_known(self) -> bool:
        """Whether the gateways that share limits know of this one, as far as it can write its reports: the
        next one of a rolling upgrade stops once this one is ready, and sends its clients here.
        """
        member = self._member
        return (
            member is None
            or member.lease_ends_ms is not None
            or self.clock.ms() - self._made_ms >= KNOWN_WITHIN_MS
        )

    @property
    def _has_upstream(self) -> bool:
        return bool(self.cluster.nodes) and not self.cluster.is_refused

    @property
    def reapers(self) -> Sequence[Reaper]:
        """The reapers of delayed requests."""
        return self._reapers

    def start_storage(self, nursery: TaskStarter) -> None:
        """Start the tasks that talk to the upstream cluster."""
        nursery.start_soon(self.client.run, name="upstream-client")
        nursery.start_soon(self.cluster.run, name="upstream-cluster")
        nursery.start_soon(self._own_topics.run, self.client, name="gateway-topics")
        if self.config.console.listener is not None:
            nursery.start_soon(self.contents.readings.run, name="upstream-views")
        if self.config.upstream.sasl_jaas_location:
            follow = partial(self._upstream_security.follow_file, self.cluster.renew_logins)
            nursery.start_soon(follow, name="upstream-credentials")
        if not isinstance(self._principals, OwnPrincipal):
            nursery.start_soon(self._principals.run, name="upstream-principals")
            nursery.start_soon(self._revocations.run, name="gateway-revocations")
        if self.followed is not None:
            nursery.start_soon(self.followed.run, name="upstream-quotas")
        if self.sharing is not None:
            nursery.start_soon(self.sharing.run, name="gateway-shares")
        if self.metadata_log is not None:
            nursery.start_soon(self.metadata_log.run, name="gateway-metadata")
        if self._cluster_keys is not None:
            nursery.start_soon(self._cluster_keys.follow_file, name="gateway-keys")

    async def metadata_ready(self) -> None:
        """Wait until the changes of all gateways are known, FOLLOWED_WITHIN_S at most. Raises ConfigError if
        they must be signed first, or the cluster can have none.
        """
        log = self.metadata_log
        if log is not None:
            with trio.move_on_after(FOLLOWED_WITHIN_S):
                await log.followed.wait()
            if log.must_be_signed or log.is_refused:
                raise ConfigError("quota.scope", "cluster", f"for {METADATA_TOPIC}: {log.problem}")

    def start_drain(self, nursery: TaskStarter) -> None:
        """Start the task that lets clients go when the gateway is drained."""
        nursery.start_soon(self.leaving.run, name="gateway-drain")
        nursery.start_soon(drain_on_signal, self.leaving.begin, name="gateway-drain-signal")

    async def drain(self) -> None:
        """Let clients go to other gateways, and close the remaining connections."""
        self.leaving.begin()
        await self.leaving.finished.wait()
        if self.sharing is not None:
            await self.sharing.leave()

    def _make_drain(self) -> Drain:
        config = self.config
        elsewhere = Elsewhere(
            lambda listener: config.gateway.for_listener(listener).drain_to,
            self._other_gateways,
            config.broker.node_id,
            lambda port: self.node_ports.node_of(port) is not None,
        )
        return Drain(
            self._id,
            self.clock,
            self.socket_server,
            self.node_ports,
            elsewhere,
            self._listener_nodes,
            lambda: list(self.cluster.nodes),
            self._expects_others,
            config.gateway.drain_timeout_ms,
            self.finish_requests,
        )

    def _other_gateways(self) -> Collection[Summary]:
        """Return the last summaries of the gateways that share limits with this one."""
        return () if self._summaries is None else self._summaries.others(self.clock.ms()).values()

    def _expects_others(self) -> bool:
        """Return whether another gateway shares limits with this one, and its addresses are not known yet."""
        member, summaries = self._member, self._summaries
        if member is None or summaries is None:
            return False
        return not {member.gateway, *summaries.others(self.clock.ms())}.issuperset(member.table.gateways)

    def _listener_nodes(self) -> tuple[ListenerNodes, ...]:
        """Return where clients of each listener reach the upstream nodes."""
        listeners = [each for each in self.socket_server.listeners if not each.ending]
        found = ((each, self.node_ports.addresses_of(each)) for each in listeners)
        return tuple(
            ListenerNodes(each.name, each.protocol, nodes) for each, nodes in found if nodes is not None
        )

    def start_ports(self, nursery: TaskStarter) -> None:
        """Start the task that opens a port for each upstream node."""
        nursery.start_soon(self._open_node_ports, name="upstream-node-ports")

    async def may_accept(self, listener: str) -> None:
        """Wait until gateways that begin later know of this one, ANNOUNCED_WITHIN_S at most: then one that is
        alone has its limits for itself.
        """
        if self.sharing is not None:
            with trio.move_on_after(ANNOUNCED_WITHIN_S):
                await self.sharing.announced.wait()

    async def _open_node_ports(self) -> None:
        await self.may_accept("")
        await self.node_ports.run()

    def _upstream_quotas(self) -> UpstreamQuotas:
        return UpstreamQuotas(
            self.client,
            self.control,
            lambda: self._has_upstream,
            telemetry=self.config.telemetry.enabled,
        )

    def _connect_upstream(self, configuration: Configuration) -> None:
        """Build the client of the upstream cluster, which the metadata needs; of its keys, only those of its
        login are dynamic.
        """
        config = configuration.config
        self.metadata_log: MetadataLog | None = None
        self._upstream_security = UpstreamSecurity(config.upstream, self.clock)
        identity = ClusterIdentity(Path(config.log.dirs[0]))
        self.cluster = UpstreamCluster(
            config.upstream,
            self._upstream_security,
            self.clock,
            expected_id=identity.read(),
            on_cluster_id=identity.write,
        )
        self.client = UpstreamClient(config.upstream, self._upstream_security, self.cluster)
        self._revocations = Revocations(
            lambda: self.socket_server.selectors(),
            lambda listener: not self._logs_in_upstream(listener),
            lambda: self.security.plain,
            lambda: self.control.image.scram,
            lambda principal: self._principals.forget(principal),
        )

    def _make_principals(self, config: BrokerConfig) -> OwnPrincipal | TokenPrincipals | MappedPrincipals:
        """Return whom the cluster sees in the clients that log in here. Raises ConfigError."""
        upstream, revocations = config.upstream, self._revocations
        security, close = self._upstream_security, revocations.close
        match config.gateway.upstream_principal:
            case "delegation-token":
                connected = revocations.connected
                return TokenPrincipals(upstream, self.client, security, self.clock, connected, close)
            case "map":
                location = config.gateway.upstream_principal_map
                return MappedPrincipals(location, upstream, self.clock, close)
        return OwnPrincipal(security)

    def _committer(
        self, configuration: Configuration
    ) -> Callable[[MetadataStore, MetadataWriter], Committer]:
        """Return what makes the committer of changes: with quota.scope=cluster, the log of all gateways.
        Raises ConfigError.
        """
        if configuration.config.quotas.scope != "cluster":
            return lambda _store, writer: writer
        if configuration.forget:
            allowed = "nothing with quota.scope=cluster; delete the setting while the gateway runs"
            raise ConfigError("--forget", ",".join(configuration.forget), allowed)

        def follow(store: MetadataStore, writer: MetadataWriter) -> Committer:
            (last_row,) = store.history(AuditFilter(limit=1))
            topic = TopicLog(
                METADATA_TOPIC, self.client, self.clock, created=lambda: self._own_topics.ask_soon()
            )
            gateway = f"{configuration.config.broker.node_id}"
            records = self._records_of(METADATA_TOPIC)
            self.metadata_log = MetadataLog(gateway, topic, writer, last_row, self.clock, records)
            return self.metadata_log

        return follow

    def _records_of(self, topic: str) -> Records:
        """Return the signer and verifier of the records of one of the gateways' topics."""
        keys = self._cluster_keys
        records = Records() if keys is None else SignedRecords(topic, self._id, keys)
        self._records[topic] = records
        return records

    def _share_limits(self) -> tuple[SharingTask, SharedLimits]:
        """Return the task that shares the limits with the other gateways, and what it knows."""
        topic = TopicLog(
            SHARES_TOPIC,
            self.client,
            self.clock,
            SHARES_CONFIGS,
            SHARES_TIMEOUT_MS,
            created=self._own_topics.ask_soon,
        )
        records = self._records_of(SHARES_TOPIC)
        gate = self.socket_server.gate
        member = self._member = SharingMember(
            self._id, self.quotas, SharedConnections(gate.quotas, gate.poke)
        )
        own = OwnSummaries(
            self._id,
            self.socket_server,
            self.quotas,
            self.server_quotas.connections.values(),
            self.clock,
            self._listener_nodes,
            lambda: self.leaving.has_begun,
        )
        self._summaries = summaries = Summaries(
            own.summary,
            keeps_clients=self.config.console.listener is not None,
            measure_clients=own.clients,
        )
        lists = ConnectionLists(
            self._id,
            lambda: self.views.live.each_connection(),
            lambda: summaries.others(self.clock.ms()),
            topic,
            self.clock,
            records,
        )
        self.control.add_planner(
            AlterClientQuotas,
            lambda command, at: plan_client_quotas(command, at, max(len(member.table.gateways), 1)),
        )
        shares = SharedLimits(member, summaries, self.quotas, self.clock, lists)
        task = SharingTask(member, topic, self.clock, records, shares.note_report, summaries, lists)
        return task, shares

    def _logs_in_upstream(self, listener: str) -> bool:
        """Whether clients of a listener log in upstream, where they are known, and not at the gateway."""
        return self.config.gateway.for_listener(listener).authentication == UPSTREAM

    async def _connect(self, listener: str, node_id: int | None, principal: str) -> UpstreamSocket:
        """Open the upstream connection of a client: to a node, or on a bootstrap port to any. Raises
        UpstreamError.
        """
        upstream, security = self.config.upstream, self._upstream_security
        if self.cluster.is_refused:
            raise UpstreamError(Reason.CLUSTER, self.cluster.state.error)
        address = self.cluster.bootstrap_address() if node_id is None else self.cluster.address_of(node_id)
        if address is None:
            raise UpstreamError(Reason.NODE, f"no upstream node has the id {node_id}")
        try:
            if self._logs_in_upstream(listener):
                opened = await open_connection(address, upstream, security, login=False)
            else:
                opened = await open_as(principal, address, upstream, security, self._principals)
        except UpstreamError as error:
            if error.reason is Reason.PRINCIPAL:
                raise
            self.cluster.refresh()
            if error.reason is Reason.CREDENTIALS:
                self.cluster.doubt_login(address)
            raise
        self._backoff_of(node_id).reset()
        return opened

    def _renew_metrics(self) -> None:
        for routes in self._routes.values():
            routes.renew_metrics()

    def _controller(self) -> int | None:
        """Return the node that the cluster names as its controller."""
        node_id = self.cluster.controller_id
        return node_id if node_id in self.cluster.nodes else None

    def _backoff_of(self, node_id: int | None) -> ReconnectBackoff:
        return self._backoffs.setdefault(node_id, ReconnectBackoff(self.config.upstream))

    def _backoff_s(self, node_id: int | None, error: UpstreamError) -> float:
        """Return how long the connection of a client stays open after `error`. One that concerns a principal
        makes no other client wait.
        """
        if error.reason is Reason.PRINCIPAL:
            return self.config.upstream.metadata_max_age_ms / 1_000
        return self._backoff_of(node_id).after_s(error)

    def _make_throttling(self, *arguments: Any) -> Throttling:
        self._throttling = (PipelinedThrottling if self._by_node is None else NodeThrottling)(*arguments)
        return self._throttling

    def _forwarding(self, listener: str) -> ListenerForwarding:
        """Return what a processor of a listener forwards with."""
        config = self.config
        routes = self._routes.get(listener)
        if routes is None:
            routes = self._routes[listener] = ForwardRoutes(
                self._always_answered,
                lambda name, version: self.socket_server.metrics.of(name, version),
                forwards_logins=self._logs_in_upstream(listener),
                answers=self._answered,
                has_racks=bool(self._racks),
            )
        return ListenerForwarding(
            ForwardLimits(config.gateway.max_in_flight, config.gateway.splice_min_bytes),
            routes,
            self.quotas,
            self._throttling,
            partial(self._connect, listener),
            self._renewal,
            lambda port: self.node_ports.node_of(port),
            lambda name: self.node_ports.node_of_name(listener, name),
            lambda node_id: self.node_ports.advertised(listener, node_id),
            lambda: self.node_ports.version,
            self._local_versions,
            self._missing_versions(),
            self._backoff_s,
            self._by_node,
            self._own_topics,
            self._racks,
        )

    def _reconsider_topics(self) -> None:
        """Let every connection look again through what it sends."""
        for channel in self.socket_server.channels():
            assert isinstance(channel, GatewayChannel)
            channel.client.reconsider()

    def _local_versions(self) -> dict[int, tuple[int, int]]:
        """Return the versions of the APIs that the gateway answers whatever the upstream brokers know."""
        return {entry.key: (entry.advertised_min, entry.max_version) for entry in self._always_answered}

    def _missing_versions(self) -> dict[int, tuple[int, int]]:
        """Return the versions of APIs that are offered although an upstream broker does not know them."""
        return LISTS_CLIENT_METRICS if ApiKey.LIST_CONFIG_RESOURCES in self._answered else {}

    def _clients_view(self) -> ClientsView:
        def node_of(channel: GatewayChannel) -> int | None:
            if channel.node_id is None and channel.server_name:
                return self.node_ports.node_of_name(channel.listener, channel.server_name)
            return channel.node_id

        return ClientsView(
            lambda: self.cluster.expected_id,
            node_of,
            self._local_versions,
            self._missing_versions,
            lambda listener: self._routes[listener].versions_of,
        )

    def _log_in_upstream_with(self, upstream: UpstreamConfig) -> None:
        """Use new credentials from now on, and find out whether the nodes accept them."""
        self._principals.configure(upstream)
        self._upstream_security.configure(upstream)
        self.cluster.renew_logins()

    def _check_upstream_login(self, upstream: UpstreamConfig) -> None:
        """Raise ConfigError for credentials that cannot be used."""
        check_credentials(upstream)
        if isinstance(self._principals, MappedPrincipals):
            self._principals.check(upstream)

    def _start_network(self) -> SocketServer:
        """Build the services of the handlers and the network. Binds the ports of `listeners`."""
        config = self.config
        counts = PartitionCounts(self.client, lambda: self.cluster.nodes, self.clock)
        services = {
            **self._control_services(DelegationTokens()),
            MutationServices: MutationServices(self.mutations, counts, self._own_topics),
            OwnTopics: self._own_topics,
        }
        self._reapers = (retry_storm_reaper(self.retry_storm, self.clock, self.deliver),)
        produces: Purgatory[DelayedProduce] = Purgatory("Produce", 1000)
        completion = Completion(
            config.broker.node_id, NothingStaged(), self.callbacks, DelayedFetches(self.callbacks), produces
        )
        return self._bind_sockets(services, completion, self.telemetry.state.manager.disconnected)

    def _follow_settings(self) -> None:
        super()._follow_settings()
        live = self.control.live
        self.control.add_planner(DrainGateway, partial(plan_drain, AllProcesses(self.leaving)))
        live.on_change(
            lambda config: config.network,
            lambda _old, new: self.node_ports.configure(new),
            lambda _old, new: check_node_ports(self.config.gateway, new, self.config.console),
        )
        live.on_change(
            lambda config: config.upstream,
            lambda _old, new: self._log_in_upstream_with(new),
            lambda _old, new: self._check_upstream_login(new),
        )


class AllProcesses:
    """Drains this gateway, and with it those of the same parent, of which it serves the console."""

    def __init__(self, drain: Drain) -> None:
        self._drain = drain
        self.gateway = drain.gateway

    @property
    def has_begun(self) -> bool:
        return self._drain.has_begun

    def begin(self) -> None:
        self._drain.begin()
        drain_siblings()


class NothingStaged:
    """The appends of a server without logs."""

    overdue: Collection[object] = ()

    def commit(self) -> None:
        """Do nothing: nothing is ever staged."""

    def overdue_flushes(self) -> Sequence[Flush]:
        return ()


def _cluster_keys(config: BrokerConfig) -> ClusterKeys | None:
    """Return the keys of all gateways, None if nothing is signed. Raises ConfigError."""
    if config.quotas.scope != "cluster" or config.gateway.cluster_protection == "acl":
        return None
    return ClusterKeys(config.gateway)


def _check_authorizer(config: SecurityConfig) -> None:
    """Raise ConfigError if the gateway should decide by ACLs: it forwards them to the cluster."""
    if config.authorizer_class_name:
        raise ConfigError(
            "authorizer.class.name",
            config.authorizer_class_name,
            "empty for weir gateway: the upstream cluster has the ACLs, and decides by them",
        )


def _local_apis(config: BrokerConfig) -> registry.Registry:
    """Return the APIs that the gateway answers itself, as a broker does."""
    wanted: list[ApiKey] = []
    if config.gateway.quotas == "local":
        wanted += QUOTA_APIS
    if config.telemetry.enabled:
        wanted += TELEMETRY_APIS
    judged = [
        each
        for each in config.network.resolved_listeners()
        if config.gateway.for_listener(each.name).authentication != UPSTREAM
    ]
    if judged:
        wanted += (*CREDENTIAL_APIS, *TOKEN_APIS)
    if any(each.protocol.has_login for each in judged):
        wanted += LOGIN_APIS
    # The tokens after SaslHandshake 0 have no request around them, by which the gateway reads clients' bytes.
    return registry.load().only(wanted).since(ApiKey.SASL_HANDSHAKE, 1)
