"""Compares all topics of the soak, the committed offsets and the quotas with the ledgers.

A process of its own asks the broker (benchmarks.soak.clients.checker), with a client library.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from benchmarks.soak.group_ledger import Place
from benchmarks.soak.ledger import Stored, oldest
from benchmarks.soak.quota_changes import QuotaChanges
from benchmarks.soak.stage import Stage
from benchmarks.soak.topics import COPY, SOURCE

CHECKED_WITHIN_S: Final = 180.0
"""One topic or group; the reader of a topic gives up after 120 s by itself."""


class CheckError(Exception):
    """The broker could not be asked; the message has the checker's last line."""


async def check(stage: Stage, quotas: QuotaChanges, *, settled: bool) -> list[str]:
    """Return what is not as it was acknowledged. `settled`: nothing is at work any more.

    Raises CheckError, or OSError if the console does not answer.
    """
    found = await trio.to_thread.run_sync(quotas.check)
    skipped = {name: group.skipped() for name, group in stage.groups.items()}
    for name, group in stage.groups.items():
        promised = group.promised_commits()
        found += group.check_commits(promised, await committed(stage, name, list(promised)))
    for topic, ledger in stage.ledgers.items():
        promised_records = ledger.promised()
        there = await stored(stage, topic)
        compare = partial(ledger.check, promised_records, there, settled=settled)
        found += await trio.to_thread.run_sync(compare)
        starts = {partition: each.start for partition, each in there.items()}
        for name, group in stage.groups.items():
            found += group.check_deliveries(topic, promised_records, starts, skipped[name])
        ledger.forget_removed(there)
        if settled and topic == COPY:
            found += _not_copied(stage, there)
    return found


def _not_copied(stage: Stage, there: Mapping[int, Stored]) -> list[str]:
    """Find what the copier did not copy of its source's acknowledged records. Retention removes some."""
    copied = {number for each in there.values() for number in each.numbers.values()}
    first = oldest(there)
    missing = [number for number in stage.ledgers[SOURCE].promised().numbers - copied if number >= first]
    return [f"{COPY}: {len(missing)} records were not copied, first {min(missing)}"] if missing else []


async def stored(stage: Stage, topic: str) -> dict[int, Stored]:
    """Read the committed records of a topic, by partition. Raises CheckError."""
    lines = await _ask(bootstrap=stage.bootstrap, topic=topic)
    return {
        partition: Stored(**{**each, "numbers": {int(at): number for at, number in each["numbers"].items()}})
        for partition, each in lines
    }


async def committed(stage: Stage, group: str, places: list[Place]) -> dict[Place, int]:
    """Ask for the committed offsets of a group; a partition without one is left out. Raises CheckError."""
    if not places:
        return {}
    lines = await _ask(bootstrap=stage.bootstrap, group=group, places=places)
    return {Place(topic, partition): offset for topic, partition, offset in lines if offset >= 0}


async def _ask(**asked: Any) -> list[Any]:
    command = [sys.executable, "-m", "benchmarks.soak.clients.checker", json.dumps(asked)]
    what = asked.get("topic") or asked["group"]
    with trio.move_on_after(CHECKED_WITHIN_S) as limit:
        done = await trio.run_process(
            command, stdin=subprocess.DEVNULL, capture_stdout=True, capture_stderr=True, check=False
        )
    if limit.cancelled_caught:
        raise CheckError(f"{what} was not read in {CHECKED_WITHIN_S:.0f} s")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise CheckError(f"{what}: exit status {done.returncode}: {last}")
    return [json.loads(line) for line in done.stdout.splitlines()]
