"""One limit for a group of users, and users without any: a quota callback. See docs/quota-callback.md.

    client.quota.callback.class=quota_groups:QuotaGroups
    quota.group.analytics=analytics-.*
    quota.exempt.users=mirror,monitor

Every user whose whole name matches the pattern is one of the group, and all of them share what the user rule
of the name "group:analytics" allows. Nothing limits the exempt ones. Everybody else is under the rule for the
user, or the default user's, as without a callback; rules for client ids do nothing.
"""

import re
from collections.abc import Mapping
from typing import Final

from weir import DEFAULT, Cluster, Entity, Principal, QuotaCallback, QuotaKind

GROUP_KEY: Final = "quota.group."
EXEMPT_KEY: Final = "quota.exempt.users"


class QuotaGroups(QuotaCallback):
    """Answers from three dictionaries; `_groups` is searched in the order of the configuration."""

    def __init__(self) -> None:
        self._groups: dict[str, re.Pattern[str]] = {}
        self._exempt: frozenset[str] = frozenset()
        self._limits: dict[tuple[QuotaKind, object], float] = {}
        self._tags: dict[str, dict[str, str]] = {}

    def configure(self, configs: Mapping[str, str]) -> None:
        for key, pattern in configs.items():
            if key.startswith(GROUP_KEY):
                self._groups[key.removeprefix(GROUP_KEY)] = re.compile(pattern)
        self._exempt = frozenset(name.strip() for name in configs.get(EXEMPT_KEY, "").split(","))

    def quota_metric_tags(self, kind: QuotaKind, principal: Principal, client_id: str) -> Mapping[str, str]:
        tags = self._tags.get(principal.name)
        if tags is None:
            tags = self._tags[principal.name] = self._tags_of(principal.name)
        return tags

    def quota_limit(self, kind: QuotaKind, metric_tags: Mapping[str, str]) -> float | None:
        if "group" in metric_tags:
            return self._limits.get((kind, f"group:{metric_tags['group']}"))
        if "user" in metric_tags:
            own = self._limits.get((kind, metric_tags["user"]))
            return self._limits.get((kind, DEFAULT)) if own is None else own
        return None

    def update_quota(self, kind: QuotaKind, entity: Entity, new_value: float) -> None:
        if entity.client_id is None:
            self._limits[kind, entity.user] = new_value

    def remove_quota(self, kind: QuotaKind, entity: Entity) -> None:
        if entity.client_id is None:
            self._limits.pop((kind, entity.user), None)

    def quota_reset_required(self, kind: QuotaKind) -> bool:
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        return False

    def close(self) -> None:
        """There is nothing to let go of."""

    def _tags_of(self, user: str) -> dict[str, str]:
        if user in self._exempt:
            return {"exempt": "true"}
        for group, pattern in self._groups.items():
            if pattern.fullmatch(user):
                return {"group": group}
        return {"user": user}
