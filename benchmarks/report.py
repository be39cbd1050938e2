"""Medians, ratios, hits and misses of a run, as Markdown.

Called by benchmarks.run at its end, and as `python -m benchmarks.report FOLDER` for a run on disk. Reads
only the results of benchmarks.cells.
"""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.cells import START, Cells
from benchmarks.loads import LOADS, REQUESTS, UNITS, Load
from benchmarks.peers import PEERS

DOCUMENT: Final = Path(__file__).resolve().parent.parent / "docs" / "benchmarks-figures.md"
BEGIN: Final = "<!-- figures: written by make bench, not by hand -->"
END: Final = "<!-- end of figures -->"
OURS: Final = "weir"
KAFKA: Final = "kafka"  # its p99 is the goal
RIVALS: Final = (KAFKA, "kfake")  # the best of them is the goal; tansu keeps nothing on the disk

HEAD_LINES: Final = 2  # of a table; one without rows is left out

AGAINST_BEST: Final = ("Weir / best", "of the best of Kafka and kfake")

# Start-up in seconds, memory in bytes: absolute goals of Weir, and their formats.
RESOURCES: Final[list[tuple[str, str, float, Callable[[float], str]]]] = [
    ("start-up to the first answer", "first_answer_s", 0.6, lambda s: f"{s:.2f} s"),
    ("resident memory, idle", "idle", 65e6, lambda b: f"{b / 1e6:,.0f} MB"),
    ("resident memory, loaded (peak)", "peak", 160e6, lambda b: f"{b / 1e6:,.0f} MB"),
    ("of it anonymous, most seen", "anonymous", 160e6, lambda b: f"{b / 1e6:,.0f} MB"),
]


def _median(results: list[dict[str, Any]], key: str) -> float | None:
    values = [result[key] for result in results if key in result]
    return statistics.median(values) if values else None


def _row(*fields: str) -> str:
    return "| " + " | ".join(fields) + " |"


def _figure(value: float | None, spread: list[float]) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}"
    return text if len(spread) < 2 else f"{text} ({min(spread):,.0f}-{max(spread):,.0f})"


def _against_best(
    medians: dict[str, float | None], best: Callable[[list[float]], float], goal: float
) -> list[str]:
    """Return Weir's ratio to the best rival, and whether it reaches the goal; empty without both."""
    theirs = [found for peer in RIVALS if (found := medians.get(peer))]
    ours = medians.get(OURS)
    if ours is None or not theirs:
        return ["", ""]
    ratio = ours / best(theirs)
    reached = ratio >= goal if best is max else ratio <= goal
    return [f"{ratio:.2f}", f"{'hit' if reached else 'MISS'} (goal {goal:g})"]


def _load_row(cells: Cells, load: Load, peers: list[str]) -> str:
    medians = {peer: _median(cells.good(peer, load.name), load.measure) for peer in peers}
    fields = [f"{load.title}, {UNITS[load.measure]}"]
    fields += [_figure(medians[p], [r[load.measure] for r in cells.good(p, load.name)]) for p in peers]
    return _row(*fields, *_against_best(medians, max, load.goal))


def _full_loads(cells: Cells) -> list[Load]:
    return [load for load in map(LOADS.__getitem__, cells.settings["loads"]) if not load.at_half]


def throughput_table(cells: Cells) -> list[str]:
    peers = cells.settings["peers"]
    head = ["load", *(PEERS[peer].title for peer in peers), *AGAINST_BEST]
    rows = [_load_row(cells, load, peers) for load in _full_loads(cells)]
    return [_row(*head), _row(*["---"] * len(head)), *rows]


def latency_table(cells: Cells) -> list[str]:
    peers = cells.settings["peers"]
    head = ["p50, p99 in ms", *(PEERS[peer].title for peer in peers)]
    lines = [_row(*head), _row(*["---"] * len(head))]
    for load in _full_loads(cells):
        found = {peer: cells.good(peer, load.name) for peer in peers}
        if not any("p50_us" in result for results in found.values() for result in results):
            continue
        fields = [load.title]
        for results in found.values():
            p50, p99 = _median(results, "p50_us"), _median(results, "p99_us")
            fields.append("-" if p50 is None or p99 is None else f"{p50 / 1000:.2f}, {p99 / 1000:.2f}")
        lines.append(_row(*fields))
    return lines


def half_load_table(cells: Cells) -> list[str]:
    """Return the p99 of each peer at half of the rate that it reached itself, and that rate."""
    loads = [load for load in map(LOADS.__getitem__, cells.settings["loads"]) if load.at_half]
    if not loads:
        return []
    peers = cells.settings["peers"]
    head = [
        "p99 in ms, at half of its own rate",
        *(PEERS[p].title for p in peers),
        "Weir / Kafka",
        "of Kafka's",
    ]
    lines = [_row(*head), _row(*["---"] * len(head))]
    for load in loads:
        p99s = {peer: _median(cells.good(peer, load.name), "p99_us") for peer in peers}
        fields = [load.title]
        for peer, p99 in p99s.items():
            rate = _median(cells.good(peer, load.name), REQUESTS)
            fields.append("-" if p99 is None or rate is None else f"{p99 / 1000:.2f} at {rate:,.0f}/s")
        ours, theirs = p99s.get(OURS), p99s.get(KAFKA)
        if ours is None or theirs is None:
            fields += ["", ""]
        else:
            fields += [f"{ours / theirs:.2f}", "hit" if ours <= theirs else "MISS"]
        lines.append(_row(*fields))
    return lines


def processor_table(cells: Cells) -> list[str]:
    """Return the broker's processor time per request, which depends least on other load of the machine."""
    peers = cells.settings["peers"]
    head = ["broker's processor time per request, us", *(PEERS[peer].title for peer in peers), *AGAINST_BEST]
    lines = [_row(*head), _row(*["---"] * len(head))]
    for load in _full_loads(cells):
        medians = {peer: _median(cells.good(peer, load.name), "broker_cpu_us") for peer in peers}
        fields = ["-" if found is None else f"{found:,.1f}" for found in medians.values()]
        lines.append(_row(load.title, *fields, *_against_best(medians, min, 1.0)))
    return lines


def _resources_of(cells: Cells, peer: str) -> dict[str, float | None]:
    started = cells.good(peer, START)
    loaded = [result for name in cells.settings["loads"] for result in cells.good(peer, name)]
    return {
        "first_answer_s": _median(started, "first_answer_s"),
        "idle": _median(started, "resident"),
        "peak": max((result["peak"] for result in loaded), default=None),
        "anonymous": max((result["anonymous"] for result in loaded), default=None),
    }


def resource_table(cells: Cells) -> list[str]:
    peers = cells.settings["peers"]
    found = {peer: _resources_of(cells, peer) for peer in peers}
    head = ["", *(PEERS[peer].title for peer in peers), "Weir's goal"]
    lines = [_row(*head), _row(*["---"] * len(head))]
    for title, key, goal, show in RESOURCES:
        fields = [title]
        for peer in peers:
            value = found[peer][key]
            fields.append("-" if value is None else show(value))
        ours = found[OURS][key] if OURS in found else None
        fields.append("" if ours is None else f"{'hit' if ours < goal else 'MISS'} (under {show(goal)})")
        lines.append(_row(*fields))
    return lines


def _others(cells: Cells) -> float:
    shares = [c.result["others_share"] for c in cells.by_key.values() if "others_share" in c.result]
    return statistics.median(shares) if shares else 0.0


def _last_words(failure: str) -> str:
    """Return the last meaningful line; tracebacks of exception groups end in a drawing."""
    telling = [line for line in failure.splitlines() if any(map(str.isalpha, line))]
    return telling[-1].strip(" |+-") if telling else failure


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def render(cells: Cells) -> str:
    settings = cells.settings
    machine = (
        f"{len(os.sched_getaffinity(0))} cores of {_processor()}, Linux {platform.release()}; "
        f"Weir {settings.get('weir', 'interpreted')}"
    )
    about = (
        f"{time.strftime('%Y-%m-%d')}, commit `{settings['commit']}`, {machine}. Medians of "
        f"{settings['rounds']} rounds, in brackets least and most; {settings['seconds']:g} s counted each. "
        f"Other processes took {_others(cells):.0%} of the cores at the median of all loads."
    )
    failures = [
        f"* round {cell.round}, {cell.peer}, {cell.load}: `{_last_words(cell.result['failed'])}`"
        for cell in cells.failures()
    ]
    tables = (throughput_table, latency_table, half_load_table, processor_table, resource_table)
    parts = [[about], *(lines for table in tables if len(lines := table(cells)) > HEAD_LINES)]
    if failures:
        parts.append(["Failed:", "", *failures])
    return "\n\n".join("\n".join(part) for part in parts)


def write_report(cells: Cells, *, into_docs: bool) -> None:
    """Print the report and write it beside the cells; `into_docs` also puts it between the document's
    marks.
    """
    report = render(cells)
    (cells.folder / "report.md").write_text(report + "\n", encoding="utf-8")
    print(report)
    if into_docs:
        before, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        DOCUMENT.write_text(f"{before}{BEGIN}\n\n{report}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    print(render(Cells.load(Path(sys.argv[1]))))
