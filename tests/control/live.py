"""The live figures of a broker that is not there."""

from collections.abc import Sequence

from broker.control.rows.tasks import TaskRow
from broker.control.views import (
    AddressUse,
    ConnectionLimitRow,
    ConnectionRow,
    Decided,
    Figures,
    GroupRow,
    QuotaUse,
    ShadowUse,
    ThrottledRow,
    TopicSize,
)

FIGURES = Figures(1, 2, 3, 4, 5.0, 6.0, 7.0, 8, 9, 10, 0.5, 0.5, 0.0, 0, None)


class Live:
    """A `LiveFigures` that says what it is told to."""

    def __init__(self) -> None:
        self.use: list[QuotaUse] = []
        self.shadows: list[ShadowUse] = []
        self.asked = 0
        self.decisions: dict[str, Decided] = {}
        self.held: list[ThrottledRow] = []
        self.sizes: list[TopicSize] = []
        self.all_groups: list[GroupRow] = []
        self.seen: list[AddressUse] = []

    def figures(self) -> Figures:
        return FIGURES

    def throttled(self) -> Sequence[ThrottledRow]:
        return self.held

    def connections(self) -> Sequence[ConnectionRow]:
        return []

    def addresses(self) -> Sequence[AddressUse]:
        return self.seen

    def connection_limits(self) -> Sequence[ConnectionLimitRow]:
        return []

    def tasks(self) -> list[TaskRow]:
        return []

    def quota_use(self) -> Sequence[QuotaUse]:
        self.asked += 1
        return self.use

    def shadow_use(self) -> Sequence[ShadowUse]:
        return self.shadows

    def decided(self, user: str, client_id: str, key: str) -> Decided | None:
        return self.decisions.get(key)

    def topic_sizes(self) -> Sequence[TopicSize]:
        return self.sizes

    def groups(self) -> Sequence[GroupRow]:
        return self.all_groups
