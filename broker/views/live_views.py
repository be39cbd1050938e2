"""The live state that `views` joins with the metadata image. Implemented by broker.views."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from broker.common.steps import Steps
from broker.controller.commands import EntityPairs
from broker.controller.rows.broker import (
    BrokerMetrics,
    TaskRow,
)
from broker.controller.rows.connections import (
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Flow,
    ThrottledRow,
)
from broker.controller.rows.quotas import (
    BrokerLimit,
    ClientUsage,
    Decided,
    NodeUse,
    QuotaUse,
    RetryStormUse,
    ShadowUse,
)
from broker.controller.rows.topics import GroupDetail, GroupRow, PartitionRow, TopicSize
from broker.controller.rows.transactions import TransactionDetail, TransactionRow
from broker.quotas.remote_use import Clients


class LiveViewSource(Protocol):
    """The live views that broker.server.broker passes in. All calls are fast and synchronous, and return the
    current state.
    """

    def metrics(self) -> BrokerMetrics: ...

    def broker_limits(self) -> Sequence[BrokerLimit]:
        """Return the four rates of the broker quota."""

    def retry_storm(self) -> RetryStormUse: ...

    def flow(self) -> Flow: ...

    def throttled(self) -> Iterable[ThrottledRow]:
        """Yield the connections that were throttled at the time of the call; rows are built lazily."""

    def connections(self) -> Iterable[ConnectionRow]:
        """Yield rows built lazily, so that the caller can pause between them."""

    def connected_clients(self) -> Iterable[tuple[str, str]]:
        """Yield the user and client id of every connection that was authenticated at the time of the call."""

    def addresses(self) -> Sequence[AddressUse]: ...

    def controller_addresses(self) -> Sequence[AddressUse]: ...

    def connection_limits(self) -> Sequence[ConnectionLimitRow]: ...

    def quota_use(self) -> Iterable[QuotaUse | None]:
        """Yield the use of every rule with recent clients. None stands for sensors without a result."""

    def quota_use_of(self, entity: EntityPairs) -> Sequence[QuotaUse]:
        """Return the use of one entity."""

    def shadow_use(self) -> Sequence[ShadowUse]:
        """Return the use of every limit in shadow mode."""

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        """Return the callback's decision; None without a callback."""

    def usage(self) -> Iterable[ClientUsage]:
        """Yield every recently active client, built lazily. With very many clients, the least active are
        dropped.
        """

    def observed(self, key: str, user: str, client_id: str, ip: str) -> float | None:
        """Return the value of the sensor of this client or address, the highest of several nodes; None
        without a sensor.
        """

    def throttled_clients(self, key: str) -> Iterable[Clients]:
        """Yield the clients of the limit that throttles it, for each connection throttled by one of `key`."""

    def limited_by(self, user: str, client_id: str) -> tuple[str, ...]:
        """Return the keys of the limits that apply to a client."""

    def nodes(self, key: str, user: str, client_id: str, bound: float) -> tuple[NodeUse, ...]:
        """Return the use of a limit of this client at each upstream node, with the throttle time under
        `bound`; empty unless limits hold at each node.
        """

    def wait_ms(self, key: str, observed: float, bound: float) -> int:
        """Return the throttle time for this use over the whole window; 0 up to the bound."""

    def first_wait_ms(self, key: str, user: str, client_id: str, entity: EntityPairs, bound: float) -> int:
        """Return how long a client is throttled first if `entity` limits it to `bound` from now on; 0 if it
        only waits for what it sends from now on.
        """

    def topic_size(self, name: str) -> TopicSize: ...

    def partitions(self, topic: str) -> Iterable[PartitionRow]:
        """Yield rows by index, built lazily."""

    def groups(self) -> Iterable[GroupRow | None]:
        """Yield rows built lazily."""

    def group(self, group_id: str) -> Steps[GroupDetail | None]: ...

    def transactions(self) -> Iterable[TransactionRow | None]:
        """Yield rows built lazily."""

    def transaction(self, transactional_id: str) -> Steps[TransactionDetail | None]: ...

    def tasks(self) -> list[TaskRow]: ...
