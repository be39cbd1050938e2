"""Divides one limit among the gateways whose clients use it: a pure function of their demands.

Demand is measured twice, in what passed in a second and in what waits in throttled connections. All amounts
are millionths of the limit (`report`).

While less than nine tenths of the limit passes, or nothing waits, each gateway has what it uses and a part
of the rest. Otherwise each keeps what it can be sure of: a gateway that uses little, what it uses, up to a
quarter of an equal part; a gateway whose clients wait less than those of the others, most of what it uses.
The rest is divided by demand, half by what passed and half by what waits. So a gateway whose clients wait
longer than those of the others gains on them until all wait equally long, as clients of a single broker do,
whatever the sizes of their requests and the times between them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.gateway.sharing.report import WHOLE

CONTENDED: Final = WHOLE * 9 // 10
"""A limit of which more passes is contended if clients wait for it. Measured rates vary by some percent."""

HEADROOM: Final = 16
"""A gateway that uses little keeps a sixteenth more than it uses."""

YIELDED: Final = 8
"""A gateway without waiting clients yields an eighth of what it uses to those with waiting clients. Then its
own clients wait, or it did not need the eighth.
"""


class Demand(NamedTuple):
    """In millionths of the limit: what passes in a second, and what waits."""

    passed: int
    waiting: int


def divide(demands: Mapping[str, Demand], floor: int) -> dict[str, int]:
    """Return the part of each gateway, at least 1. Together they are `WHOLE` at most, but for those 1s.

    `floor` is a quarter of an equal part, what a gateway takes before the others know its demand.
    """
    passed = sum(each.passed for each in demands.values())
    waiting = sum(each.waiting for each in demands.values())
    if waiting and passed >= CONTENDED:
        kept = {name: _kept(each, passed, waiting, floor) for name, each in demands.items()}
        by = {name: max(each.passed - kept[name], 0) for name, each in demands.items()}
    else:
        kept = by = {name: each.passed for name, each in demands.items()}
    all_kept, total = sum(kept.values()), sum(by.values())
    if all_kept >= WHOLE:
        return {name: max(each * WHOLE // all_kept, 1) for name, each in kept.items()}
    rest = WHOLE - all_kept
    parts = {}
    for name, each in demands.items():
        if total and waiting:
            more = (rest * by[name] // total + rest * each.waiting // waiting) // 2
        elif waiting:
            more = rest * each.waiting // waiting
        elif total:
            more = rest * by[name] // total
        else:
            more = rest // len(demands)
        parts[name] = max(kept[name] + more, 1)
    return parts


def _kept(demand: Demand, passed: int, waiting: int, floor: int) -> int:
    """Return what the gateway keeps of a contended limit."""
    small = min(demand.passed + demand.passed // HEADROOM, floor)
    mean, own = demand.passed * waiting, demand.waiting * passed
    if own >= mean:
        return small
    # From seven eighths without waiting clients to nothing if they wait as long as those of the others.
    unclaimed = (demand.passed - demand.passed // YIELDED) * (mean - own) // mean
    return max(small, unclaimed)
