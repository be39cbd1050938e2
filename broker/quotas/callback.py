"""The interface of a quota callback, an operator's class that decides which clients share a limit and how
high it is. (Kafka: ClientQuotaCallback, KIP-257)

Public as `weir.QuotaCallback`: `client.quota.callback.class` names a class with these methods;
docs/quota-callback.md has a working example. `guarded_callback` loads it and handles its errors, and
`callback_usage` keeps its sensors.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Protocol

import msgspec

from broker.common.principal import Principal
from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind

__all__ = ["DEFAULT", "ClientQuotaCallback", "Cluster", "Entity", "Principal", "QuotaKind"]


class Cluster(msgspec.Struct, frozen=True):
    """The cluster's `topics`: for each topic the broker ids of its partitions' leaders."""

    cluster_id: str
    topics: Mapping[str, tuple[int, ...]]


class ClientQuotaCallback(Protocol):
    """A quota callback.

    One instance, created without arguments, serves all four types of client quota: produce, fetch, request
    and controller mutation. Only the limits that it returns apply; rules set with Kafka's tools are passed to
    it and have no effect of their own.

    The broker calls it on its one thread during a request, so it must return from memory and never block. An
    exception never fails the client's request; each method documents its effect. The broker counts every
    failure and logs it at most once a minute for each method.
    """

    @abstractmethod
    def configure(self, configs: Mapping[str, str]) -> None:
        """Configure the callback. Called once, before any other method.

        `configs` has the configuration's texts as the operator wrote them, including unknown keys and
        passwords, and always node.id and broker.id. Raising stops the start.
        """

    @abstractmethod
    def quota_metric_tags(self, kind: QuotaKind, principal: Principal, client_id: str) -> Mapping[str, str]:
        """Return the tags of a client. Clients with the same tags share a limit; the tags are also the labels
        of the metrics. Called for every request, and several times for some.

        If it raises, the client keeps its former tags; a client without any is not limited.
        """

    @abstractmethod
    def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:
        """Return the limit of all clients with these tags, in the quota's unit and above 0, or None.

        Called when the tags first occur, and for all tags in use after a change of a rule, of the cluster, or
        one that `quota_reset_required` reports. If it raises or returns an invalid limit, the former limit
        stays; new tags have no limit.
        """

    @abstractmethod
    def update_quota(self, kind: QuotaKind, entity: Entity, new_value: float) -> None:
        """Handle a rule that was set with Kafka's tools, the console or REST. Called once for each existing
        rule at the start.

        The broker stores the rule and passes it again at the next start, whether this raises or not.
        """

    @abstractmethod
    def remove_quota(self, kind: QuotaKind, entity: Entity) -> None:
        """Handle the removal of a rule. Errors are treated as in `update_quota`."""

    @abstractmethod
    def quota_reset_required(self, kind: QuotaKind) -> bool:
        """Return whether limits of this type changed since the last call for reasons of the callback's own.
        If so, the broker calls `quota_limit` for all tags in use before the request continues. Called with
        every `quota_metric_tags`, so it should read a flag. Raising counts as False.
        """

    @abstractmethod
    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Handle new topics, deleted topics and added partitions; called once at the start. Return whether
        limits changed as a result. Raising counts as False.
        """

    @abstractmethod
    def close(self) -> None:
        """Release resources after the broker has stopped. The last call."""
