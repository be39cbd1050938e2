"""Loads the class that `client.quota.callback.class` names, and handles its errors: no exception or invalid
value of a quota callback reaches a request.

The composition root calls `load_callback` before any file or socket is opened; every error stops the start
with a ConfigError. It wraps the object in a `GuardedCallback`, which `callback_usage` and `client_quotas`
call. Failures are counted for each method, and logged with their number and the last traceback at most once
in `LOG_EVERY_MS` for each method.
"""

import inspect
import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from math import isfinite
from typing import Final, cast

from broker.common.errors import ConfigError
from broker.common.principal import Principal
from broker.quotas.callback import ClientQuotaCallback, Cluster
from broker.quotas.entity import Entity
from broker.quotas.kinds import QuotaKind

CALLBACK_KEY: Final = "client.quota.callback.class"

PARAMETERS: Final = {
    "configure": 1,
    "quota_metric_tags": 3,
    "quota_limit": 2,
    "update_quota": 3,
    "remove_quota": 2,
    "quota_reset_required": 1,
    "update_cluster_metadata": 1,
    "close": 0,
}
"""The required methods and the number of their arguments."""


def load_callback(name: str, configs: Mapping[str, str]) -> ClientQuotaCallback:
    """Return a configured object of the class `package.module:Class` or `package.module.Class`.

    Raises ConfigError.
    """
    kind = _class_of(name)
    try:
        made = kind()
    except Exception as error:
        raise _refused(name, f"cannot create an instance: {_message(error)}") from error
    for method, arguments in PARAMETERS.items():
        _check(name, made, method, arguments)
    callback = cast(ClientQuotaCallback, made)
    try:
        callback.configure(configs)
    except Exception as error:
        raise _refused(name, f"configure() raised {_message(error)}") from error
    return callback


def _class_of(name: str) -> type:
    module_name, colon, path = name.partition(":")
    if not colon:
        module_name, _, path = name.rpartition(".")
    if not all(part.isidentifier() for part in f"{module_name}.{path}".split(".")):
        raise _refused(name, "expected package.module:Class or package.module.Class")
    found: object
    try:
        found = import_module(module_name)
    except Exception as error:
        raise _refused(name, f"cannot import module {module_name}: {_message(error)}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise _refused(name, f"module {module_name} has no {path}")
        found = getattr(found, part)
    if not inspect.isclass(found):
        raise _refused(name, f"{path} is not a class")
    return found


def _check(name: str, made: object, method: str, arguments: int) -> None:
    bound = getattr(made, method, None)
    if not callable(bound):
        raise _refused(name, f"missing method {method}")
    if inspect.iscoroutinefunction(bound):
        raise _refused(name, f"method {method} is async, expected a synchronous method")
    try:
        inspect.signature(bound).bind(*range(arguments))
    except TypeError as error:
        raise _refused(name, f"method {method} must accept {arguments} arguments: {error}") from error
    except ValueError:
        pass  # methods written in C have no signature


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(CALLBACK_KEY, name, reason)


def _message(error: Exception) -> str:
    """Return the type and message of an exception in one line."""
    reason = " ".join(str(error).split())
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__


logger = logging.getLogger(__name__)

LOG_EVERY_MS: Final = 60_000

_principal: Final = lru_cache(maxsize=4096)(Principal)

Tags = tuple[tuple[str, str], ...]
"""The tags that a callback returned, sorted by name: equal for all clients that share a limit."""


class GuardedCallback:
    """A callback whose errors are handled. `name` is the configured class, `failures` their number by method.

    `now_ms` is called only after a failure.
    """

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
            result = dict(self._callback.quota_metric_tags(kind, _principal(user), client_id))
            return tuple(result.items()) if len(result) < 2 else tuple(sorted(result.items()))
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
            result = self._callback.quota_limit(kind, dict(tags))
            if result is None:
                return None
            bound = float(result)
        except Exception:  # noqa: BLE001
            self._failed("quota_limit")
            return last
        if bound > 0 and isfinite(bound):
            return bound
        reason = f"invalid limit: expected a number above 0, got {result!r:.200}, for {dict(tags)!r:.200}"
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
            self._log_at_ms[method] = now_ms + LOG_EVERY_MS
            logger.error(
                "the quota callback failed",
                exc_info=not reason,
                extra={"callback": self.name, "method": method, "times": self._unlogged.pop(method)}
                | ({"reason": reason} if reason else {}),
            )
