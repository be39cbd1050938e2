"""The quotas in force: the permanent limits of the metadata, and over them the temporary limits of this time.

Part of `Control`, which publishes the result as its image. Nothing is written when a temporary limit begins
or ends: each server finds it by itself, from the metadata and the wall clock, also after a restart and after
the clock was set. Without temporary limits the image of the store is published as it is.

The generators are run in slices, one at a time.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from broker.common.slices import Steps, run_through
from broker.common.weekly import BadWindow
from broker.metadata.changes import Delta, EntityPairs, QuotaChange
from broker.metadata.image import Image, Limit, QuotaEntry, Temporary

logger = logging.getLogger(__name__)

Quotas = Mapping[EntityPairs, QuotaEntry]


class QuotasInForce:
    """`wall_ms` returns the wall clock. `next_change_ms` is when a temporary limit begins or ends next, by
    that clock, None if none does.
    """

    def __init__(self, image: Image, wall_ms: Callable[[], int]) -> None:
        """`image` is the store's."""
        self.next_change_ms: int | None = None
        self._wall_ms = wall_ms
        self._stored = image.quotas
        self._temporary = {pairs: entry for pairs, entry in image.quotas.items() if entry.temporary}
        """The stored entries with temporary limits, also ended ones: the clock may be set back."""
        self._unknown_zones: set[str] = set()
        self._evaluated_ms = 0
        self._quotas: Quotas = run_through(self._evaluate())

    def of(self, image: Image) -> Image:
        """Return an image of the store with the limits in force, for quotas that were published."""
        return replace(image, quotas=self._quotas) if self._temporary else image

    @property
    def has_temporary(self) -> bool:
        return bool(self._temporary)

    def publish(self, image: Image, delta: Delta) -> Steps[tuple[Image, Delta]]:
        """Take a new image of the store. Return it with the limits in force, and the changes of these."""
        if image.quotas is self._stored:
            return self.of(image), delta
        changed = delta.temporary_quotas | {
            pairs for pairs in self._temporary if image.quotas.get(pairs) is not self._stored.get(pairs)
        }
        for pairs in changed:
            entry = image.quotas.get(pairs)
            if entry is not None and entry.temporary:
                self._temporary[pairs] = entry
            else:
                self._temporary.pop(pairs, None)
        self._stored, before = image.quotas, self._quotas
        self._quotas = yield from self._evaluate()
        if not changed and not self._temporary:
            return image, delta
        concerned = changed | self._temporary.keys()
        others = [each for each in delta.quotas if each.entity not in concerned]
        differences = yield from _differences(before, self._quotas, concerned)
        return self.of(image), replace(delta, quotas=(*others, *differences))

    def is_due(self) -> bool:
        """Return whether a temporary limit may have begun or ended since the last call: its time has come, or
        the clock was set back.
        """
        before_ms, now_ms = self._evaluated_ms, self._wall_ms()
        self._evaluated_ms = now_ms
        is_over = self.next_change_ms is not None and self.next_change_ms <= now_ms
        return bool(self._temporary) and (is_over or now_ms < before_ms)

    def switch(self, image: Image) -> Steps[tuple[Image, Delta] | None]:
        """Return the published `image` with the limits in force now, and their changes; None if nothing
        changes.
        """
        before, self._quotas = self._quotas, (yield from self._evaluate())
        if all(before.get(pairs) == self._quotas.get(pairs) for pairs in self._temporary):
            return None
        differences = yield from _differences(before, self._quotas, self._temporary)
        return self.of(image), replace(Delta.of(()), quotas=tuple(differences))

    def _evaluate(self) -> Steps[Quotas]:
        self._evaluated_ms, self.next_change_ms = self._wall_ms(), None
        if not self._temporary:
            return self._stored
        quotas = dict(self._stored)
        for pairs, entry in self._temporary.items():
            in_force = self._at(entry, self._evaluated_ms)
            if in_force is None:
                del quotas[pairs]
            else:
                quotas[pairs] = in_force
            yield
        return quotas

    def _at(self, entry: QuotaEntry, now_ms: int) -> QuotaEntry | None:
        """Return the entry at this time without ended temporary limits; None if nothing is left."""
        limits, temporary = dict(entry.limits), {}
        for key, stored in entry.temporary.items():
            found = self._temporary_at(stored, now_ms)
            if found is None:
                continue
            temporary[key] = found
            if found.is_active:
                limits[key] = Limit(found.limit.value, found.changed_at_ms, found.changed_by)
            change = found.changes_at_ms
            if change is not None and (self.next_change_ms is None or change < self.next_change_ms):
                self.next_change_ms = change
        if not limits and not temporary:
            return None
        return replace(entry, limits=dict(sorted(limits.items())), temporary=temporary)

    def _temporary_at(self, stored: Temporary, now_ms: int) -> Temporary | None:
        limit = stored.limit
        try:
            is_active, change = limit.is_active(now_ms), limit.next_change(now_ms)
        except BadWindow:
            zone = "" if limit.weekly is None else limit.weekly.zone
            if zone not in self._unknown_zones:
                self._unknown_zones.add(zone)
                logger.error(
                    "this machine does not know a time zone: its temporary limits do not apply",
                    extra={"zone": zone},
                )
            return stored
        if not is_active and change is None:
            return None
        return replace(stored, is_active=is_active, changes_at_ms=change)


def _differences(before: Quotas, after: Quotas, entities: Iterable[EntityPairs]) -> Steps[list[QuotaChange]]:
    """Return the changed values of these entities."""
    changes = []
    for pairs in entities:
        old, new = _values(before.get(pairs)), _values(after.get(pairs))
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                changes.append(QuotaChange(pairs, key, new.get(key)))
        yield
    return changes


def _values(entry: QuotaEntry | None) -> dict[str, float]:
    return {} if entry is None else {key: limit.value for key, limit in entry.limits.items()}
