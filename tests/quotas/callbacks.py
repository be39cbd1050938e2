"""Quota callbacks for tests: a scripted one, and broken ones for `callback_class`."""

from collections.abc import Callable, Mapping
from typing import Any

from broker.quotas.callback import ClientQuotaCallback, Cluster, Entity, Principal, QuotaKind


class Scripted(ClientQuotaCallback):
    """Groups users by the text before the dash, with `limits` by group. Records every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.limits: dict[str, Any] = {}
        self.reset = False
        self.cluster_changes = False
        self.broken: dict[str, Callable[[], Any]] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        self.calls.append(("configure", dict(configs)))

    def quota_metric_tags(self, kind: QuotaKind, principal: Principal, client_id: str) -> Mapping[str, str]:
        if "tags" in self.broken:
            answer: Mapping[str, str] = self.broken["tags"]()
            return answer
        return {"group": principal.name.partition("-")[0]}

    def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:
        self.calls.append(("limit", kind, dict(metric_tags)))
        if "limit" in self.broken:
            answer: float | None = self.broken["limit"]()
            return answer
        return self.limits.get(metric_tags.get("group", ""))

    def update_quota(self, kind: QuotaKind, entity: Entity, new_value: float) -> None:
        self.calls.append(("update", kind, entity, new_value))
        if "update" in self.broken:
            self.broken["update"]()
        assert isinstance(entity.user, str)
        self.limits[entity.user] = new_value

    def remove_quota(self, kind: QuotaKind, entity: Entity) -> None:
        self.calls.append(("remove", kind, entity))
        self.limits.pop(str(entity.user), None)

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        if "reset" in self.broken:
            return bool(self.broken["reset"]())
        was, self.reset = self.reset, False
        return was

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        self.calls.append(("cluster", cluster))
        return self.cluster_changes

    def close(self) -> None:
        self.calls.append(("close",))

    def limit_calls(self) -> list[dict[str, str]]:
        return [call[2] for call in self.calls if call[0] == "limit"]


class Unfinished(ClientQuotaCallback):  # type: ignore[misc]
    """Inherits the protocol and implements no method."""


class Nothing:
    """Has no method."""


class RaisesWhenMade(Scripted):
    def __init__(self) -> None:
        raise RuntimeError("no licence\nfound")


class RaisesWhenConfigured(Scripted):
    def configure(self, configs: Mapping[str, str]) -> None:
        raise KeyError("quota.file")


class Asynchronous(Scripted):
    async def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:  # type: ignore[override]
        return None


class TakesOther(Scripted):
    def quota_metric_tags(self, user: str) -> Mapping[str, str]:  # type: ignore[override]
        return {}


NO_CLASS = "text"
