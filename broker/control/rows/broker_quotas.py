"""The limits of the whole broker and of the cluster, with their use. See `views` for units."""

from dataclasses import dataclass

from broker.quotas.kinds import QuotaKind


@dataclass(frozen=True, slots=True)
class BrokerLimit:
    """One `broker.quota` rate: `value` and `observed` in `unit`; a `value` of None means unlimited.
    `throttled` counts connections throttled now; `throttles` all throttles since it was enabled,
    `throttle_ms` their total.
    """

    kind: QuotaKind
    key: str
    unit: str
    value: float | None
    observed: float
    throttled: int
    throttles: int
    throttle_ms: int


@dataclass(frozen=True, slots=True)
class WhiteList:
    """Clients that one key exempts from the `broker.quota` limits."""

    key: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterLimit:
    """The current and the maximum number (None: unlimited)."""

    key: str
    value: int | None
    count: int


@dataclass(frozen=True, slots=True)
class RetryStormUse:
    """`delayed` responses since the start, for `delayed_ms` in total; `waiting` of them now."""

    delayed: int
    delayed_ms: int
    waiting: int


@dataclass(frozen=True, slots=True)
class RetryStormRow:
    is_enabled: bool
    max_delay_ms: int
    use: RetryStormUse


@dataclass(frozen=True, slots=True)
class BrokerQuotas:
    """`version` is that of the broker's dynamic settings, which include the limits."""

    is_enabled: bool
    limits: tuple[BrokerLimit, ...]
    white_lists: tuple[WhiteList, ...]
    cluster: tuple[ClusterLimit, ...]
    retry_storm: RetryStormRow
    version: int
