"""Draws the pictures of docs/quotas-explained.md: `python -m demo.quota_pictures`. A test compares them.

The broker's own quotas judge a simulated client on a simulated clock: when they change, the pictures do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.common.principal import ANONYMOUS
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.entity import Entity

FOLDER: Final = Path(__file__).parents[1] / "docs" / "images"
CLIENT: Final = "greedy"
KEY: Final = "producer_byte_rate"
LIMIT: Final = 1_000_000
REQUEST: Final = 100_000
REQUEST_MS: Final = 10
"""A client that is not throttled sends 10 MB/s."""

MINUTE_S: Final = 60

WIDTH: Final = 760
LEFT: Final = 56
RIGHT: Final = 26
PANEL: Final = 104
GAP: Final = 56
TOP: Final = 34
BAR: Final = "#3b6ea5"
EDGE: Final = "#b3402e"
INK: Final = "#24292f"
QUIET: Final = "#57606a"

Limits = Sequence[tuple[int, float]]
"""From which second on which limit, in bytes per second."""


@dataclass(frozen=True)
class Panel:
    title: str
    bars: Sequence[float]
    limits: Limits

    def limit_at(self, second: int) -> float:
        return [limit for since, limit in self.limits if since <= second][-1]


def passed(quotas: ClientQuotas, limits: Limits, seconds: int = MINUTE_S) -> list[float]:
    """Return the bytes of each second of a client that sends the next request as soon as it may."""
    bars = [0.0] * seconds
    left = list(limits)
    at_ms = 0
    while at_ms < seconds * 1_000:
        while left and left[0][0] * 1_000 <= at_ms:
            quotas.apply(Entity(client_id=CLIENT), KEY, left.pop(0)[1], at_ms)
        bars[at_ms // 1_000] += REQUEST
        at_ms += REQUEST_MS
        throttle = quotas.produce.record(ANONYMOUS, CLIENT, REQUEST, at_ms)
        if throttle is not None:
            at_ms += throttle.throttle_ms
    return bars


def algorithms() -> str:
    limits = [(0, LIMIT)]
    kinds = [
        ("rate: Kafka's own rule", ClientQuotas(paced=False)),
        ("paced: the default", ClientQuotas()),
        ("token_bucket, with a second's worth", ClientQuotas(burst_ms=1_000)),
    ]
    return _drawn([_panel(title, passed(quotas, limits), limits) for title, quotas in kinds])


def changes() -> str:
    limits = [(0, LIMIT), (20, 3 * LIMIT), (40, LIMIT / 2)]
    return _drawn([_panel("paced, with a limit that changes", passed(ClientQuotas(), limits), limits)])


def _panel(title: str, bars: list[float], limits: Limits) -> Panel:
    allowed = sum(
        limit * (until - since) for (since, limit), until in zip(limits, _ends(limits), strict=True)
    )
    return Panel(f"{title}. In this minute {sum(bars) / allowed:.0%} of the limit", bars, limits)


def _ends(limits: Limits) -> list[int]:
    return [*(since for since, _ in limits[1:]), MINUTE_S]


def _drawn(panels: Sequence[Panel]) -> str:
    height = TOP + len(panels) * (PANEL + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13" role="img">',
        f"<title>{'; '.join(panel.title for panel in panels)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
    ]
    most = max(max(panel.bars) for panel in panels)
    for index, panel in enumerate(panels):
        parts += _panel_parts(panel, TOP + index * (PANEL + GAP), most)
    return "\n".join([*parts, "</svg>", ""])


def _panel_parts(panel: Panel, top: int, most: float) -> list[str]:
    seconds = len(panel.bars)
    step = (WIDTH - LEFT - RIGHT) / seconds
    base = top + PANEL

    def y_of(value: float) -> float:
        return base - value / most * PANEL

    parts = [f'<text x="{LEFT}" y="{top - 12}" fill="{INK}" font-weight="bold">{panel.title}</text>']
    parts += [
        f'<rect x="{LEFT + second * step + 1:.1f}" y="{y_of(value):.1f}" width="{step - 2:.1f}" '
        f'height="{base - y_of(value):.1f}" fill="{BAR}"/>'
        for second, value in enumerate(panel.bars)
        if value
    ]
    for (since, limit), until in zip(panel.limits, _ends(panel.limits), strict=True):
        ends = f'x1="{LEFT + since * step:.1f}" x2="{LEFT + until * step:.1f}"'
        parts.append(
            f'<line {ends} y1="{y_of(limit):.1f}" y2="{y_of(limit):.1f}" stroke="{EDGE}" stroke-width="2"/>'
        )
    parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}" stroke="{QUIET}" stroke-width="1"/>'
    )
    parts += [
        _label(LEFT + second * step, base + 16, "middle", f"{second} s")
        for second in range(0, seconds + 1, 10)
    ]
    parts += [_label(LEFT - 8, y_of(value) + 4, "end", f"{value / 1e6:g} MB") for value in (0.0, most)]
    return parts


def _label(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{QUIET}" text-anchor="{anchor}">{text}</text>'


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "quota-algorithms.svg": algorithms,
    "quota-changes.svg": changes,
}


def main() -> None:
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
