"""Quota entities with their use, and the search for the one that governs a client. See `views` for units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from broker.control.commands import EntityPairs


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What one rule's clients do now: `observed` in the key's own unit, `throttled` connections muted by
    it.
    """

    entity: EntityPairs
    key: str
    observed: float
    throttled: int = 0


@dataclass(frozen=True, slots=True)
class ShadowUse:
    """What one limit in shadow mode would have done since it was marked or the broker started: so many
    requests answered with a wait, clients held for so long, waits that overlap counted once; the last one at
    `last_at_ms` (None: never).
    """

    entity: EntityPairs
    key: str
    times: int
    held_ms: int
    last_at_ms: int | None


@dataclass(frozen=True, slots=True)
class QuotaLimit:
    """One limit of one entity. `observed` is None while nobody that it governs has been seen; `shadow` is
    what it would have done, None where it is enforced.
    """

    key: str
    value: float
    observed: float | None
    throttled: int
    changed_at_ms: int
    changed_by: str
    shadow: ShadowUse | None = None

    @property
    def used(self) -> float | None:
        """Use against the limit: 1.0 is at the limit."""
        return None if self.observed is None else self.observed / self.value


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """All limits of one entity. `version` is the ETag: it grows with every change of the entity, and is never
    used twice. `shadow`: they are measured and not enforced.
    """

    entity: EntityPairs
    limits: tuple[QuotaLimit, ...]
    version: int
    changed_at_ms: int
    changed_by: str
    shadow: bool = False

    def value(self, key: str) -> float | None:
        return next((limit.value for limit in self.limits if limit.key == key), None)


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One step of the search for the rule that governs a client: `entity` was looked for, `value` is what was
    found. `shadow`: what was found is measured and not enforced.
    """

    entity: EntityPairs
    value: float | None
    matched: bool
    shadow: bool = False


class MeasuredBy(StrEnum):
    """Where `observed` comes from: the sensor that the quota itself reads, or the counters of the connections
    of all who share the limit, which count every byte.
    """

    QUOTA = "quota"
    CONNECTIONS = "connections"


@dataclass(frozen=True, slots=True)
class Decided:
    """What a quota callback says of one client and key: who shares the limit, as tags (None where it failed),
    and the limit (None for none). `observed` is what all of them use, None if nobody has been seen.
    """

    tags: tuple[tuple[str, str], ...] | None
    bound: float | None
    observed: float | None


@dataclass(frozen=True, slots=True)
class ResolvedLimit:
    """Which rule governs a client for one key, and the probes in the order in which they are made. `observed`
    is what all who share that limit do now. `wait_ms` is how long the next request would be told to wait if
    they go on like this, 0: not at all, None: not known; in shadow it would only be counted. Where a callback
    decides (`decided`) no rule does: none of the probes matched, and `bound` is the callback's.
    """

    key: str
    probes: tuple[ProbeRow, ...]
    matched: EntityPairs | None
    bound: float | None
    observed: float | None
    measured_by: MeasuredBy | None = None
    shadow: bool = False
    wait_ms: int | None = None
    decided: Decided | None = None


@dataclass(frozen=True, slots=True)
class ClientUsage:
    """What one client does, limited or not, and has done since `since_at_ms`: `connections` open now, rates
    over the last ten to fifteen seconds, totals. `request_percentage` is None while no rule has requests
    timed. `limited_by` has the keys for which a rule governs it. `history` makes one row for each five
    seconds of the last five minutes, the oldest first: bytes in, bytes out, requests. It is called for the
    rows that are shown: those of a thousand clients would be 60,000 tuples.
    """

    user: str
    client_id: str
    connections: int
    bytes_in_per_s: float
    bytes_out_per_s: float
    requests_per_s: float
    request_percentage: float | None
    bytes_in: int
    bytes_out: int
    requests: int
    since_at_ms: int
    last_active_at_ms: int
    limited_by: tuple[str, ...]
    history: Callable[[], Sequence[tuple[int, int, int]]] = tuple


class MatchType(StrEnum):
    """DescribeClientQuotas' filter: this name, the default entity, or any name at all."""

    EXACT = "exact"
    DEFAULT = "default"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """One component of a filter; `name` only with EXACT."""

    entity_type: str
    match: MatchType
    name: str | None = None
