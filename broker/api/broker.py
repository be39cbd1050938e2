"""The services that handlers use, filled once by the composition root; the object has no behaviour."""

from dataclasses import dataclass, field
from typing import Any

from broker.api.callbacks import Callbacks
from broker.api.delayed_answer import DelayedAnswer
from broker.api.delayed_produce import DelayedProduce
from broker.api.logins import Logins
from broker.api.registry import Registry
from broker.clock import Clock
from broker.config.sections import FetchConfig, GroupConfig, NodeConfig, SecurityConfig, TopicDefaults
from broker.control.control import Control
from broker.control.views import Views
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.replication import ReplicationQuotas
from broker.quotas.retry_storm import RetryStorm
from broker.security.plain import PlainAuthenticator
from broker.security.unknown_users import UnknownUsers
from broker.services.fetch_sessions import FetchSessions
from broker.services.fetching import DelayedFetch
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions
from broker.services.producer_ids import ProducerIds
from broker.telemetry.state import Telemetry


@dataclass(slots=True)
class Endpoint:
    """A listener as handlers see it: its advertised address and its permitted APIs."""

    host: str
    port: int
    registry: Registry
    is_controller: bool = False


@dataclass(slots=True)
class Broker:
    """The services of the broker.

    `endpoints` is keyed by listener name and filled once the ports are bound. `callbacks` queues the
    responses of delayed requests in the order of their completion.
    """

    clock: Clock
    config: NodeConfig
    topic_defaults: TopicDefaults
    group_config: GroupConfig
    fetch_config: FetchConfig
    security_config: SecurityConfig
    registry: Registry
    control: Control
    partitions: Partitions
    quotas: ClientQuotas
    replication: ReplicationQuotas
    fetches: Purgatory[DelayedFetch]
    produces: Purgatory[DelayedProduce]
    sessions: FetchSessions
    groups: GroupService
    producer_ids: ProducerIds
    plain: PlainAuthenticator
    unknown_users: UnknownUsers
    callbacks: Callbacks
    telemetry: Telemetry
    retry_storm: RetryStorm = field(default_factory=RetryStorm)
    delayed_answers: Purgatory[DelayedAnswer] = field(default_factory=lambda: Purgatory("RetryStorm"))
    views: Views = field(init=False)
    logins: Logins = field(init=False)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)

    @property
    def purgatories(self) -> tuple[Purgatory[Any], ...]:
        """The purgatories that Kafka has too."""
        return self.fetches, self.produces
