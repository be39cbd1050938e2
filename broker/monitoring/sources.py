"""The parts of a server that metrics and views read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from broker.api.requests.callbacks import Callbacks
from broker.api.requests.retry_storm import RetryStormGate
from broker.coordinator.group_service import GroupService
from broker.coordinator.transaction_service import TransactionService
from broker.log.cleaner.manager import CleanerManager
from broker.partitions.partitions import Partitions
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.telemetry.state import Telemetry


class ClientSources(NamedTuple):
    """What every server has for its clients."""

    quotas: ClientQuotas
    retry_storm: RetryStormGate
    callbacks: Callbacks
    telemetry: Telemetry


class LogSources(NamedTuple):
    """What a server with logs has besides."""

    partitions: Partitions
    groups: GroupService
    transactions: TransactionService
    replication: ReplicationQuotas
    cleaner: CleanerManager
    purgatories: Sequence[Purgatory[Any]]
