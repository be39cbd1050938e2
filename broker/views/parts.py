"""The parts of a server that views, /metrics and the task tree read. Made by `server`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RetryStormGate
from broker.coordinator.group_service import GroupService
from broker.coordinator.share.dead_letters import DeadLetterCounts
from broker.coordinator.transaction_service import TransactionService
from broker.log.cleaner.manager import CleanerManager
from broker.network.clock import LoopIdle, TrioClock
from broker.network.socket_server import SocketServer
from broker.partitions.event_log import EventBuffer
from broker.partitions.partitions import Partitions
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.security.acl.authorizer import Authorizer
from broker.telemetry.state import Telemetry


class ServerParts(NamedTuple):
    """The parts of every server. `loop` is an instrument of Trio."""

    clock: TrioClock
    loop: LoopIdle
    server: SocketServer
    quotas: ClientQuotas
    retry_storm: RetryStormGate
    callbacks: Callbacks
    telemetry: Telemetry
    events: EventBuffer | None = None


class LogParts(NamedTuple):
    """The parts of a server with logs: a broker, not a gateway."""

    partitions: Partitions
    groups: GroupService
    transactions: TransactionService
    replication: ReplicationQuotas
    cleaner: CleanerManager
    purgatories: Sequence[Purgatory[Any]]
    authorizer: Authorizer | None
    dead_letters: Mapping[str, DeadLetterCounts]
    """By group id."""
