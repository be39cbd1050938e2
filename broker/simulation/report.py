"""The result of a simulation as a table, JSON or CSV, for one quota file or two.

Called by the command line. Rates are in bytes/s over the whole duration.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, Final

from broker.quotas.entity import Entity
from broker.simulation.scenario import SECOND_US
from broker.simulation.summary import ClientGroupTotals, RuleTotals, SimulationSummary, Totals

MAX_ROWS: Final = 40
"""Maximum number of rows of a table; JSON and CSV have all."""

UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def in_table(before: SimulationSummary, after: SimulationSummary | None = None) -> str:
    """Return a table for people; `after` is the same load under other quotas."""
    seconds = before.duration_us / SECOND_US
    parts = [
        f"{seconds:,.0f} s, {before.connections:,} connections, {before.events:,} requests simulated",
        _aligned(_group_lines(before.groups, after.groups if after else None, seconds)),
    ]
    parts += [_aligned(_rule_lines(each.rules, seconds)) for each in (before, after) if each is not None]
    parts += [f"Not simulated: {each}" for each in (after or before).without_effect]
    return "\n\n".join(part for part in parts if part)


def in_json(before: SimulationSummary, after: SimulationSummary | None = None) -> str:
    """Return one object, with a second one of the same shape under `compared` for `after`."""
    shown = _document(before)
    if after is not None:
        shown["compared"] = _document(after)
    return json.dumps(shown, indent=2)


def in_csv(before: SimulationSummary, after: SimulationSummary | None = None) -> str:
    """Return a line for each group of clients."""
    lines = io.StringIO()
    summaries = [("before", before)] if after is None else [("before", before), ("after", after)]
    rows = [
        {"quotas": name} | {name: value for name, value in row.items() if name != "rules"}
        for name, summary in summaries
        for row in _document(summary)["clients"]
    ]
    writer = csv.DictWriter(lines, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return lines.getvalue().rstrip("\n")


def any_throttled(summary: SimulationSummary) -> bool:
    return any(row.totals.throttles for row in summary.groups)


def _document(summary: SimulationSummary) -> dict[str, Any]:
    seconds = summary.duration_us / SECOND_US
    return {
        "seconds": seconds,
        "seed": summary.seed,
        "connections": summary.connections,
        "played": summary.events,
        "clients": [
            {
                "name": row.name,
                "kind": row.kind.value,
                "clients": row.clients,
                "rules": [None if rule is None else _rule(*rule) for rule in row.rules],
                **_totals_json(row.totals, seconds),
            }
            for row in summary.groups
        ],
        "rules": [
            {
                **_rule(row.entity, row.key, row.limit),
                "allowances": row.allowances,
                **_totals_json(row.totals, seconds),
            }
            for row in summary.rules
        ],
        "not_played": list(summary.without_effect),
    }


def _rule(entity: Entity, key: str, limit: float) -> dict[str, Any]:
    return {"entity": dict(entity.pairs), "key": key, "limit": limit}


def _totals_json(totals: Totals, seconds: float) -> dict[str, Any]:
    return {
        "connections": totals.connections,
        "offered_bytes": totals.offered,
        "accepted_bytes": totals.accepted,
        "given_up_bytes": totals.expired,
        "waiting_bytes": totals.waiting,
        "offered_rate": round(totals.offered / seconds, 3),
        "accepted_rate": round(totals.accepted / seconds, 3),
        "throttled_share": round(totals.throttled_share, 6),
        "throttles": totals.throttles,
        "mean_throttle_ms": round(totals.mean_ms, 3),
        "longest_throttle_ms": totals.longest_ms,
    }


def _group_lines(
    rows: Sequence[ClientGroupTotals], others: Sequence[ClientGroupTotals] | None, seconds: float
) -> list[Sequence[str]]:
    head = [
        "CLIENTS",
        "",
        "COUNT",
        "OFFERED",
        "ACCEPTED",
        "THROTTLED",
        "THROTTLES",
        "MEAN",
        "LONGEST",
        "LOST",
    ]
    lines: list[Sequence[str]] = [[*head, "RULE"]]
    pairs = list(zip_longest(rows, others or ()))
    # If not all groups fit, the most throttled come first.
    if len(pairs) > MAX_ROWS:
        pairs.sort(key=lambda pair: -max(row.totals.throttled_share for row in pair if row))
    for row, other in pairs[:MAX_ROWS]:
        lines.append(_group_line(row, seconds))
        if other is not None:
            lines.append(["  compared", *_group_line(other, seconds)[1:]])
    if len(pairs) > MAX_ROWS:
        lines.append([f"and {len(pairs) - MAX_ROWS} more, throttled less; --json has them all"])
    return lines


def _group_line(row: ClientGroupTotals, seconds: float) -> list[str]:
    governing = sorted({"no limit" if rule is None else f"{rule[0]}: {_rate(rule[2])}" for rule in row.rules})
    return [
        row.name,
        row.kind.value,
        str(row.clients),
        *_totals_cells(row.totals, seconds),
        _bytes(row.totals.expired),
        "; ".join(governing),
    ]


def _rule_lines(rows: Sequence[RuleTotals], seconds: float) -> list[Sequence[str]]:
    if not rows:
        return []
    head = ["RULE", "LIMIT", "OF", "OFFERED", "ACCEPTED", "THROTTLED", "THROTTLES", "MEAN", "LONGEST"]
    lines: list[Sequence[str]] = [head]
    return lines + [
        [
            f"{row.entity}, {row.key}",
            _rate(row.limit) if "byte" in row.key else f"{row.limit:g} %",
            str(row.allowances),
            *_totals_cells(row.totals, seconds),
        ]
        for row in rows
    ]


def _totals_cells(totals: Totals, seconds: float) -> Iterable[str]:
    return (
        _rate(totals.offered / seconds),
        _rate(totals.accepted / seconds),
        f"{totals.throttled_share:.1%}",
        f"{totals.throttles:,}",
        f"{totals.mean_ms:,.0f} ms" if totals.throttles else "-",
        f"{totals.longest_ms:,} ms" if totals.throttles else "-",
    )


def _rate(per_second: float) -> str:
    return f"{_bytes(per_second)}/s"


def _bytes(amount: float) -> str:
    for size, unit in UNITS:
        if amount >= size:
            return f"{amount / size:.4g} {unit}"
    return f"{amount:.4g} B"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    if not lines:
        return ""
    columns = len(lines[0])
    widths = [max(len(line[column]) for line in lines if len(line) == columns) for column in range(columns)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in lines
    )
