"""The services that handlers use, one class for each family of handlers.

`registry.api` names the class of a handler. `control_services` and `log_services` build one object of each
class; the routes of `network` pass it to the handlers. The objects have no behaviour.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from broker.api.registry import Registry
from broker.api.requests.callbacks import Callbacks
from broker.api.requests.change_limits import ControllerMutations
from broker.api.requests.delayed_operations import AppendLinger, DelayedFetches, DelayedShareFetches
from broker.api.requests.streams_topics import StreamsTopics
from broker.api.security.client_security import ClientSecurity, Logins
from broker.common.clock import Clock
from broker.config.table import BrokerConfig
from broker.controller.control import Control
from broker.coordinator.group_service import GroupService
from broker.coordinator.share.persister import ShareStatePersister
from broker.coordinator.share.sessions import ShareSessions
from broker.coordinator.share.share_partitions import SharePartitions
from broker.coordinator.share.states import ShareGroupStates
from broker.coordinator.transaction.changes import ProducerIds
from broker.coordinator.transaction_service import TransactionService
from broker.partitions.fetch_sessions import FetchSessions
from broker.partitions.partitions import Partitions
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.security.delegation_tokens import DelegationTokens
from broker.security.unknown_users import UnknownUsers
from broker.telemetry.state import Telemetry


class AdvertisedListener(msgspec.Struct):
    """A listener as handlers see it: its advertised address and its permitted APIs."""

    host: str
    port: int
    registry: Registry
    is_controller: bool = False


Endpoints = dict[str, AdvertisedListener]
"""By listener name; `network` fills it once the ports are bound."""

HandlerServices = Mapping[type, Any]
"""One object of each class below, by its class."""


class ProduceServices(msgspec.Struct, frozen=True):
    partitions: Partitions
    fetches: DelayedFetches
    quotas: ClientQuotas
    transactions: TransactionService
    security: ClientSecurity


class FetchServices(msgspec.Struct, frozen=True):
    """`max_bytes` is fetch.max.bytes."""

    clock: Clock
    node_id: int
    max_bytes: int
    partitions: Partitions
    fetches: DelayedFetches
    sessions: FetchSessions
    quotas: ClientQuotas
    replication: ReplicationQuotas
    security: ClientSecurity


class PartitionServices(msgspec.Struct, frozen=True):
    """For offsets, log directories, and the deletion of records."""

    partitions: Partitions
    security: ClientSecurity


class ClusterServices(msgspec.Struct, frozen=True):
    """For DescribeCluster and ApiVersions."""

    node_id: int
    endpoints: Endpoints
    control: Control
    security: ClientSecurity


class MetadataServices(msgspec.Struct, frozen=True):
    """For topics and coordinators, which these APIs may create."""

    node_id: int
    endpoints: Endpoints
    control: Control
    partitions: Partitions
    groups: GroupService
    transactions: TransactionService
    mutations: ControllerMutations
    security: ClientSecurity


class TopicServices(msgspec.Struct, frozen=True):
    """For changes of topics."""

    control: Control
    mutations: ControllerMutations
    security: ClientSecurity


class ControlServices(msgspec.Struct, frozen=True):
    """For configs, quotas, users and reassignments."""

    node_id: int
    control: Control
    security: ClientSecurity


class TransactionServices(msgspec.Struct, frozen=True):
    """For producer ids and transactions. `fetches` are completed when a marker is written."""

    control: Control
    producer_ids: ProducerIds
    transactions: TransactionService
    partitions: Partitions
    fetches: DelayedFetches
    security: ClientSecurity


class GroupServices(msgspec.Struct, frozen=True):
    """`share` has the states of share groups, `streams` the internal topics of Streams applications."""

    control: Control
    groups: GroupService
    callbacks: Callbacks
    security: ClientSecurity
    transactions: TransactionService
    share: ShareGroupStates
    linger: AppendLinger
    mutations: ControllerMutations
    streams: StreamsTopics


class ShareServices(msgspec.Struct, frozen=True):
    """For ShareFetch and ShareAcknowledge. `max_bytes` is fetch.max.bytes."""

    clock: Clock
    max_bytes: int
    partitions: Partitions
    waiting: DelayedShareFetches
    sessions: ShareSessions
    share: SharePartitions
    quotas: ClientQuotas
    security: ClientSecurity


class ShareStateServices(msgspec.Struct, frozen=True):
    """For the share coordinator."""

    partitions: Partitions
    persister: ShareStatePersister
    security: ClientSecurity


class LoginServices(msgspec.Struct, frozen=True):
    control: Control
    security: ClientSecurity
    unknown_users: UnknownUsers
    tokens: DelegationTokens
    logins: Logins
    callbacks: Callbacks


class DelegationTokenServices(msgspec.Struct, frozen=True):
    control: Control
    security: ClientSecurity
    tokens: DelegationTokens


def control_services(
    node_id: int,
    endpoints: Endpoints,
    control: Control,
    mutations: ControllerMutations,
    security: ClientSecurity,
    unknown_users: UnknownUsers,
    tokens: DelegationTokens,
    logins: Logins,
    callbacks: Callbacks,
    telemetry: Telemetry,
) -> HandlerServices:
    """Build the services of the handlers that use neither logs nor groups."""
    return {
        ClusterServices: ClusterServices(node_id, endpoints, control, security),
        TopicServices: TopicServices(control, mutations, security),
        ControlServices: ControlServices(node_id, control, security),
        LoginServices: LoginServices(control, security, unknown_users, tokens, logins, callbacks),
        DelegationTokenServices: DelegationTokenServices(control, security, tokens),
        Telemetry: telemetry,
    }


def log_services(
    clock: Clock,
    config: BrokerConfig,
    endpoints: Endpoints,
    partitions: Partitions,
    fetches: DelayedFetches,
    groups: GroupServices,
    quotas: ClientQuotas,
    replication: ReplicationQuotas,
) -> HandlerServices:
    """Build the services of the handlers that use logs or groups. `config`: at the start."""
    node_id, security = config.broker.node_id, groups.security
    transactions = groups.transactions
    sessions = FetchSessions(config.fetch.max_incremental_sessions)
    return {
        ProduceServices: ProduceServices(partitions, fetches, quotas, transactions, security),
        FetchServices: FetchServices(
            clock,
            node_id,
            config.fetch.max_bytes,
            partitions,
            fetches,
            sessions,
            quotas,
            replication,
            security,
        ),
        PartitionServices: PartitionServices(partitions, security),
        MetadataServices: MetadataServices(
            node_id,
            endpoints,
            groups.control,
            partitions,
            groups.groups,
            transactions,
            groups.mutations,
            security,
        ),
        TransactionServices: TransactionServices(
            groups.control, ProducerIds(), transactions, partitions, fetches, security
        ),
        GroupServices: groups,
    }
