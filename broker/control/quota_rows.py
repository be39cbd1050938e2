"""The rows of the quota table: the rules of the image with their clients' use.

Used by `reading`. Ten thousand rows take a tenth of a second, and an open page requests them every second or
two, so the rows of unused rules are cached until their rule changes.
"""

from collections.abc import Callable, Iterator, Mapping

from broker.control.commands import EntityPairs
from broker.control.views import LiveViewSource, QuotaLimit, QuotaRow, QuotaUse, ShadowUse
from broker.metadata.image import QuotaEntry

Quotas = Mapping[EntityPairs, QuotaEntry]

_UNUSED: dict[str, QuotaUse] = {}
_UNMARKED: dict[str, ShadowUse] = {}


class QuotaRows:
    __slots__ = ("_kept", "_kept_of", "_live")

    def __init__(self, live: LiveViewSource) -> None:
        self._live = live
        self._kept: dict[EntityPairs, tuple[QuotaEntry, QuotaRow]] = {}
        self._kept_of: Quotas = {}

    def each(
        self, quotas: Quotas, wanted: Callable[[EntityPairs], bool] | None = None
    ) -> Iterator[QuotaRow | None]:
        """Yield the rows of the entities that are `wanted`, in no order. Yields None first, for each step of
        collecting their use. Each change of an image's `quotas` creates a new mapping.
        """
        uses: dict[EntityPairs, dict[str, QuotaUse]] = {}
        for use in self._live.quota_use():
            yield None
            if use is not None:
                uses.setdefault(use.entity, {})[use.key] = use
        shadows: dict[EntityPairs, dict[str, ShadowUse]] = {}
        for mark in self._live.shadow_use():
            shadows.setdefault(mark.entity, {})[mark.key] = mark
        kept = self._kept
        if quotas is not self._kept_of:
            self._kept_of = quotas
            for entity in list(kept):
                yield None
                if entity not in quotas:
                    kept.pop(entity, None)
        for entity, entry in quotas.items():
            # Removed here, so that the uses of thousands of rules are freed in steps.
            used = uses.pop(entity, _UNUSED) if uses else _UNUSED
            if wanted is not None and not wanted(entity):
                yield None
                continue
            if used is not _UNUSED or entry.shadow:
                yield _row(entry, used, shadows.get(entity, _UNMARKED))
                continue
            known = kept.get(entity)
            if known is None or known[0] is not entry:
                known = kept[entity] = (entry, _row(entry, _UNUSED, _UNMARKED))
            yield known[1]

    def one(self, entry: QuotaEntry) -> QuotaRow:
        uses = {use.key: use for use in self._live.quota_use_of(entry.entity)}
        if not entry.shadow:
            return _row(entry, uses, _UNMARKED)
        marks = {mark.key: mark for mark in self._live.shadow_use() if mark.entity == entry.entity}
        return _row(entry, uses, marks)


def _row(entry: QuotaEntry, uses: Mapping[str, QuotaUse], marks: Mapping[str, ShadowUse]) -> QuotaRow:
    limits = []
    for key, limit in entry.limits.items():
        seen = uses.get(key)
        observed, throttled = (None, 0) if seen is None else (seen.observed, seen.throttled)
        would = marks.get(key) if entry.shadow else None
        by, at_ms = limit.changed_by, limit.changed_at_ms
        limits.append(QuotaLimit(key, limit.value, observed, throttled, at_ms, by, would))
    return QuotaRow(
        entry.entity, tuple(limits), entry.version, entry.changed_at_ms, entry.changed_by, entry.shadow
    )
