"""The soak's figures and its verdict: what is printed, and whether the run has failed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.soak.anomalies import Anomalies, Anomaly
from benchmarks.soak.broker_life import Life, Points, slope
from benchmarks.soak.stage import Stage

WARM_UP_MINUTES: Final = 1.0
"""Uncounted in the slopes of each life."""

LONG_MINUTES: Final = 10.0
"""Most caches are full in the second half of so long a life; docs/benchmarks-figures.md lists the others."""

MOST_MB_A_MINUTE: Final = 1.0
"""In the second half of a long life."""

MOST_MB: Final = 200.0
"""In any life: a broker that has answered this load for ten minutes has 90 MB or less."""

MOST_DESCRIPTORS_A_MINUTE: Final = 5.0
"""Connections come and go, so the number of descriptors changes by a dozen from one sample to the next."""

FEW_SAMPLES: Final = 4

SHOWN: Final = 90
"""Characters of an explained error."""


@dataclass(slots=True)
class Verdict:
    failures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failures


def slope_after(points: Points, minute: float) -> float | None:
    """Return the slope of the samples from this minute on; None of too few."""
    counted = [each for each in points if each[0] >= minute]
    return slope(counted) if len(counted) >= FEW_SAMPLES else None


def judge(lives: Sequence[Life], findings: Sequence[str], anomalies: Anomalies, stage: Stage) -> Verdict:
    verdict = Verdict([f"LOST OR CHANGED: {finding}" for finding in findings])
    verdict.failures += [
        f"unexplained, {each.count} times: {each.source}: {each.text}" for each in anomalies.unexplained()
    ]
    verdict.failures += [
        f"{ledger.topic}: nothing was acknowledged" for ledger in stage.ledgers.values() if not ledger.count
    ]
    verdict.failures += [
        f"{group.name}: nothing was read" for group in stage.groups.values() if not group.delivered_count
    ]
    for life in lives:
        most = max((each for _, each in life.memory), default=0.0)
        if most > MOST_MB:
            verdict.failures.append(f"life {life.number}: {most:.0f} MB, more than {MOST_MB:.0f}")
        grown = slope_after(life.memory, life.minutes / 2)
        if life.minutes >= LONG_MINUTES and grown is not None and grown > MOST_MB_A_MINUTE:
            verdict.failures.append(
                f"life {life.number}: memory grows by {grown:.2f} MB a minute, more than {MOST_MB_A_MINUTE}"
            )
        opened = slope_after(life.descriptors, WARM_UP_MINUTES)
        if life.minutes >= 2 * WARM_UP_MINUTES and opened is not None and opened > MOST_DESCRIPTORS_A_MINUTE:
            verdict.failures.append(f"life {life.number}: {opened:.1f} descriptors a minute more")
    return verdict


def life_line(life: Life) -> str:
    """Return one row of the table under `LIFE_HEADINGS`."""
    memory, descriptors = ([value for _, value in points] for points in (life.memory, life.descriptors))
    cells = (
        f"{life.number:4}",
        f"{life.minutes:8.1f}",
        f"{life.first_answer_s:9.2f}",
        f"{memory[0]:8.1f}{memory[-1]:8.1f}",
        _number(slope_after(life.memory, WARM_UP_MINUTES), 9, 2),
        f"{descriptors[0]:8.0f}{descriptors[-1]:8.0f}",
        _number(slope_after(life.descriptors, WARM_UP_MINUTES), 9, 1),
        f"{life.cpu_s:8.1f}",
        f"  {life.ended}",
    )
    return "".join(cells)


LIFE_HEADINGS: Final = "life minutes answers s MB first    last MB/min  fds first last  fds/min   cpu s  end"


def _number(value: float | None, width: int, places: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.{places}f}"


def print_report(
    stage: Stage, lives: Sequence[Life], anomalies: Anomalies, verdict: Verdict, began: float
) -> None:
    print("\nAcknowledged and checked")
    for ledger in stage.ledgers.values():
        print(f"  {ledger.topic:20}{ledger.count:9,} records")
    for group in stage.groups.values():
        print(f"  {group.name:20}{group.delivered_count:9,} read, {group.commits:,} commits")
    print(f"\n{sum(stage.sessions.values())} client processes, one after the other")
    print("\nLives of the broker (slopes without the first minute)")
    print(f"  {LIFE_HEADINGS}")
    for life in lives:
        print(f"  {life_line(life)}")
    print("\nErrors of clients and of the broker")
    for each in anomalies.unexplained():
        print(
            f"  {each.count:6}  {each.source}: {each.text}, first at {each.first - began:.0f} s: UNEXPLAINED"
        )
    explained: dict[tuple[str, str], list[Anomaly]] = {}
    for each in anomalies.found():
        if each.why:
            explained.setdefault((each.source, each.why), []).append(each)
    for (source, why), several in sorted(explained.items()):
        kinds = f" and {len(several) - 1} other texts" if len(several) > 1 else ""
        print(f"  {sum(each.count for each in several):6}  {source}: {several[0].text[:SHOWN]}{kinds}: {why}")
    print()
    for failure in verdict.failures:
        print(f"FAILED: {failure}")
    print(
        "PASSED: nothing acknowledged is lost, and every error is explained."
        if verdict.passed
        else "The soak FAILED."
    )
