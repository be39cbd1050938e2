"""The limits of the whole broker and of the cluster, as they are set and as they are used. See `views`."""

from dataclasses import dataclass

from broker.quotas.kinds import QuotaKind


@dataclass(frozen=True, slots=True)
class BrokerLimit:
    """One `broker.quota` rate: `value` and `observed` in `unit`, None as value for unlimited. `throttled`
    connections are held for it now; `throttles` in all since it was enabled, `throttle_ms` their total.
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
    """Who is exempt from the `broker.quota` limits by one key."""

    key: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterLimit:
    """How many there are, and how many there may be (None: any number)."""

    key: str
    value: int | None
    count: int


@dataclass(frozen=True, slots=True)
class RetryStormUse:
    """`delayed` answers since the start, for `delayed_ms` in all; `waiting` of them now."""

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
    """`version` is that of the broker's dynamic settings, which the limits are."""

    is_enabled: bool
    limits: tuple[BrokerLimit, ...]
    white_lists: tuple[WhiteList, ...]
    cluster: tuple[ClusterLimit, ...]
    retry_storm: RetryStormRow
    version: int
