"""What handlers work with: one object that the composition root fills once. It holds services and does
nothing itself.
"""

from collections import deque
from dataclasses import dataclass, field

from broker.api.context import RequestContext
from broker.api.outcome import Outcome
from broker.api.registry import Registry
from broker.clock import Clock
from broker.config.rooms import BrokerConfig, FetchConfig, GroupConfig, SecurityConfig, TopicDefaults
from broker.control.control import Control
from broker.control.reading import ControlViews
from broker.purgatory.purgatory import Purgatory
from broker.quotas.client_quotas import ClientQuotas
from broker.security.plain import PlainAuthenticator
from broker.services.fetch_sessions import FetchSessions
from broker.services.fetching import DelayedFetch
from broker.services.group_service import GroupService
from broker.services.partitions import Partitions
from broker.services.producer_ids import ProducerIds


@dataclass(slots=True)
class Endpoint:
    """Where clients of one listener are told to connect."""

    host: str
    port: int


@dataclass(slots=True)
class Broker:
    """`endpoints` by listener name, known once the ports are bound; `completions` are the answers of
    requests that waited, in the order in which they were completed, and the handler pool takes them up at
    the end of its batch.
    """

    clock: Clock
    config: BrokerConfig
    topic_defaults: TopicDefaults
    group_config: GroupConfig
    fetch_config: FetchConfig
    security_config: SecurityConfig
    registry: Registry
    control: Control
    partitions: Partitions
    quotas: ClientQuotas
    fetches: Purgatory[DelayedFetch]
    sessions: FetchSessions
    groups: GroupService
    producer_ids: ProducerIds
    plain: PlainAuthenticator
    views: ControlViews = field(init=False)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    completions: deque[tuple[RequestContext, Outcome]] = field(default_factory=deque)
