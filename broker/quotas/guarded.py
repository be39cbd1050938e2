"""Error handling around a quota callback: no exception or invalid value of a callback reaches a request.

Created by the composition root around the object that `callback_class` loaded; called by `custom` and
`client_quotas`. Failures are counted for each method, and logged with their number and the last traceback at
most once in `TELL_EVERY_MS` for each method.
"""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Final

from broker.principal import Principal
from broker.quotas.callback import ClientQuotaCallback, Cluster
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind

logger = logging.getLogger(__name__)

TELL_EVERY_MS: Final = 60_000

_principal: Final = lru_cache(maxsize=4096)(Principal)

Tags = tuple[tuple[str, str], ...]
"""The tags that a callback returned, sorted by name: equal for all clients that share a limit."""


class GuardedCallback:
    """A callback whose errors are handled. `name` is the configured class, `failures` their number by method.

    `now_ms` is called only after a failure.
    """

    __slots__ = ("_callback", "_log_at_ms", "_now_ms", "_unlogged", "failures", "name")

    def __init__(self, callback: ClientQuotaCallback, name: str, now_ms: Callable[[], int]) -> None:
        self.name = name
        self.failures: dict[str, int] = {}
        self._callback = callback
        self._now_ms = now_ms
        self._log_at_ms: dict[str, int] = {}
        self._unlogged: dict[str, int] = {}

    def tags(self, kind: QuotaKind, user: str, client_id: str) -> Tags | None:
        """Return the client's tags, or None if the callback fails."""
        try:
            answer = dict(self._callback.quota_metric_tags(kind, _principal(user), client_id))
            return tuple(answer.items()) if len(answer) < 2 else tuple(sorted(answer.items()))
        except Exception:  # noqa: BLE001 - the operator's code may raise anything
            self._failed("quota_metric_tags")
            return None

    def are_tags(self, tags: Tags) -> bool:
        """Return whether all names and values are text. Called for tags that occur for the first time."""
        if all(isinstance(part, str) for pair in tags for part in pair):
            return True
        self._failed("quota_metric_tags", f"invalid tags: expected text, got {dict(tags)!r:.200}")
        return False

    def limit(self, kind: QuotaKind, tags: Tags, last: float | None) -> float | None:
        """Return the limit, or None for no limit, or `last` if the callback fails or its limit is invalid."""
        try:
            answer = self._callback.quota_limit(kind, dict(tags))
            if answer is None:
                return None
            bound = float(answer)
        except Exception:  # noqa: BLE001
            self._failed("quota_limit")
            return last
        if bound > 0 and isfinite(bound):
            return bound
        reason = f"invalid limit: expected a number above 0, got {answer!r:.200}, for {dict(tags)!r:.200}"
        self._failed("quota_limit", reason)
        return last

    def rule_changed(self, kind: QuotaKind, entity: Entity, bound: float | None) -> None:
        """Pass a rule that was set, or removed (None)."""
        try:
            if bound is None:
                self._callback.remove_quota(kind, entity)
            else:
                self._callback.update_quota(kind, entity, bound)
        except Exception:  # noqa: BLE001
            self._failed("remove_quota" if bound is None else "update_quota")

    def reset_required(self, kind: QuotaKind) -> bool:
        try:
            return bool(self._callback.quota_reset_required(kind))
        except Exception:  # noqa: BLE001
            self._failed("quota_reset_required")
            return False

    def cluster_changed(self, cluster_id: str, node_id: int, partitions: Mapping[str, int]) -> bool:
        """Return whether limits changed. `partitions` is the number by topic; this broker leads them all."""
        topics = {name: (node_id,) * count for name, count in partitions.items()}
        try:
            return bool(self._callback.update_cluster_metadata(Cluster(cluster_id, topics)))
        except Exception:  # noqa: BLE001
            self._failed("update_cluster_metadata")
            return False

    def close(self) -> None:
        try:
            self._callback.close()
        except Exception:  # noqa: BLE001
            self._failed("close")

    def _failed(self, method: str, reason: str = "") -> None:
        self.failures[method] = self.failures.get(method, 0) + 1
        self._unlogged[method] = self._unlogged.get(method, 0) + 1
        now_ms = self._now_ms()
        if now_ms >= self._log_at_ms.get(method, 0):
            self._log_at_ms[method] = now_ms + TELL_EVERY_MS
            logger.error(
                "the quota callback failed",
                exc_info=not reason,
                extra={"callback": self.name, "method": method, "times": self._unlogged.pop(method)}
                | ({"reason": reason} if reason else {}),
            )
