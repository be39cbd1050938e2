"""What needs attention now: alerts that fire, groups that fall behind, and full disks.

Read by GET /attention, and by the live stream of the overview. Throttled clients and limits that are nearly
used up have topics of their own.
"""

from typing import Annotated, Any, Final

import msgspec
import trio

from broker.controller.alerts import Severity
from broker.controller.rows.alerts import AlertViews
from broker.controller.rows.broker import DiskRow
from broker.controller.rows.fields import Word
from broker.views.console import Views
from webui.live.lag_history import LagHistory
from webui.schema import Listing, Record
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import run_in_slices

MAX_ITEMS: Final = 20
"""Rules, and groups, that are listed."""

DISKS_S: Final = 0.5
"""How long the disks may take to answer; without an answer the last one stands."""


class FiringRule(msgspec.Struct, frozen=True):
    """A rule with alerts that fire, and how many."""

    rule: Word
    severity: Annotated[str, msgspec.Meta(extra_json_schema={"enum": tuple(Severity)})]
    firing: int


class GroupBehind(msgspec.Struct, frozen=True):
    """A group whose lag grows, by `growth` records a second."""

    group: str
    lag: int
    growth: float


class AttentionReport(msgspec.Struct, frozen=True):
    """`firing` and `falling_behind` are the numbers of all alerts and groups. The lists have at most 20."""

    firing: int
    falling_behind: int


ATTENTION: Final = Record(
    {
        **schema_of(AttentionReport).fields,
        "alerts": Listing(schema_of(FiringRule)),
        "groups": Listing(schema_of(GroupBehind)),
        "disks": Listing(schema_of(DiskRow)),
    },
    title="Attention",
)


class Attention:
    def __init__(self, views: Views, alerts: AlertViews, lags: LagHistory) -> None:
        self._views = views
        self._alerts = alerts
        self._lags = lags
        self._disks: list[DiskRow] = []
        self._one_thread = trio.CapacityLimiter(1)

    async def report(self, _now_ms: int) -> dict[str, Any]:
        rules = {row.name: row.rule for row in self._views.metadata.alert_rules()}
        firing = [
            FiringRule(name, rules[name].severity.value, count)
            for name, (_, count, *_rest) in self._alerts.rules().items()
            if count and name in rules
        ]
        order = list(Severity)
        firing.sort(key=lambda each: (-order.index(Severity(each.severity)), each.rule))
        behind = [GroupBehind(*each) for each in await run_in_slices(self._lags.falling_behind())]
        # A disk that does not answer holds up one thread, and no page.
        with trio.move_on_after(DISKS_S):
            self._disks = await trio.to_thread.run_sync(
                self._views.disks, abandon_on_cancel=True, limiter=self._one_thread
            )
        totals = AttentionReport(sum(each.firing for each in firing), len(behind))
        return as_json(totals) | {
            "alerts": [as_json(each) for each in firing[:MAX_ITEMS]],
            "groups": [as_json(each) for each in behind[:MAX_ITEMS]],
            "disks": [as_json(each) for each in self._disks],
        }
