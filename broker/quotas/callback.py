"""What a quota callback is: a class of the operator's that decides who shares a limit, and how high it is.
(Kafka: ClientQuotaCallback, KIP-257)

Public: `client.quota.callback.class` names a class with these methods, and docs/quota-callback.md has one
that works. `callback_class` loads it, `guarded` stands between it and the broker, `custom` keeps the sensors
that it tells apart.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind

__all__ = ["DEFAULT", "ClientQuotaCallback", "Cluster", "Entity", "Principal", "QuotaKind"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a connection belongs to: "User:alice", and "User:ANONYMOUS" without a login. (KafkaPrincipal)"""

    name: str
    type: str = "User"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


@dataclass(frozen=True, slots=True)
class Cluster:
    """`topics` has for each topic the leader of each of its partitions, as a broker's id."""

    cluster_id: str
    topics: Mapping[str, tuple[int, ...]]


class ClientQuotaCallback(Protocol):
    """One object of the class, made without arguments, serves all four kinds of client quotas: produce,
    fetch, request and controller mutation. Nothing is limited but by what it answers; rules that are set
    with Kafka's tools are told to it, and do nothing by themselves.

    It is called on the broker's one thread, in the middle of a request, so it must answer from memory and
    never wait. One that raises does no harm to the client in hand: what happens then is said at each method.
    Every failure is counted, and told in the log once a minute for each method.
    """

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, before anything else, with the texts of the configuration as the operator wrote them:
        keys that the broker does not know included, passwords too, and always node.id and broker.id.

        Raising stops the start.
        """

    @abstractmethod
    def quota_metric_tags(self, kind: QuotaKind, principal: Principal, client_id: str) -> Mapping[str, str]:
        """Who shares a limit with this client: all for which the same tags are answered. They are the labels
        of the metrics, too. Called for every request, and several times for some.

        Raising leaves the client with those that it shared with before; one that was never seen is not
        limited.
        """

    @abstractmethod
    def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:
        """The limit of all who have these tags, in the kind's unit and above 0; None for no limit.

        Called when the tags are met first, and for all tags in use after a change of a rule, of the cluster,
        or one that `quota_reset_required` reports. Raising, or an answer that is no limit, leaves the limit
        as it was; a new one is none.
        """

    @abstractmethod
    def update_quota(self, kind: QuotaKind, entity: Entity, new_value: float) -> None:
        """A rule was set with Kafka's tools, the console or REST; at the start, once for each that is there.

        It is kept by the broker and is told again at the next start, whether this raises or not.
        """

    @abstractmethod
    def remove_quota(self, kind: QuotaKind, entity: Entity) -> None:
        """A rule was removed. The same."""

    @abstractmethod
    def quota_reset_required(self, kind: QuotaKind) -> bool:
        """Whether limits of this kind may have become others since it was last asked, for reasons of the
        callback's own; then all in use are asked for again before the request goes on. Called with every
        `quota_metric_tags`, so it should be a flag. Raising counts as False.
        """

    @abstractmethod
    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Topics have come or gone, or got more partitions; at the start, once. Whether limits became others
        by that; raising counts as False.
        """

    @abstractmethod
    def close(self) -> None:
        """The broker has stopped; no call follows."""
