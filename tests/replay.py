"""Replays published vectors against this broker: `python -m tests.replay DIR`.

Every `*.jsonl` file in DIR is read. A line is one script, told apart by its keys and not by its file's name:
a sampled rate, a token bucket, the throttle formula, a memory pool, a timing wheel, or a row of the table of
API headers. What a step asks for is done, and every answer that the step gives is compared with ours. Prints
how many steps agree. Exit status: 0 when all do, 1 when one does not, 2 when a file holds something of
unknown form, which is named.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from broker.common.errors import ProtocolViolation
from broker.metrics.rate import (
    Rate,
    SimpleRate,
    TokenBucket,
    Window,
    bounded_throttle_time_ms,
    throttle_time_ms,
)
from broker.network.memory_pool import Lease, MemoryPool
from broker.protocol.api_key import NAMES, request_header_version, response_header_version
from broker.purgatory.timing_wheel import TimerTask, TimingWheel

Script = Mapping[str, Any]
Answers = dict[str, Any]
SHOWN = 20
"""Disagreements that are printed for each file."""

BOUNDED = re.compile(r"bounded_(\d+)_ms")
FORMER_NAMES = {"ListClientMetricsResources": "ListConfigResources"}
"""APIs that Kafka has renamed since some tables were written (KIP-1142)."""


class UnknownForm(Exception):
    """The line is not a script of any form that is known here."""


@dataclass
class Tally:
    """What came out for one file or directory."""

    steps: int = 0
    agreed: int = 0
    disagreements: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.steps += other.steps
        self.agreed += other.agreed
        self.disagreements += other.disagreements
        self.unknown += other.unknown

    @property
    def status(self) -> int:
        if self.disagreements:
            return 1
        return 2 if self.unknown else 0


def replay_rate(script: Script) -> Iterator[tuple[Script, Answers]]:
    """dt, then quota, record or unrecord if given, then the rate is measured."""
    window = window_of(script)
    rate = SimpleRate(window) if script["stat"] == "simple_rate" else Rate(window)
    quota, now_ms = script["quota"], script.get("start_ms", 0)
    for step in script["steps"]:
        now_ms += step.get("dt", 0)
        quota = step.get("quota", quota)
        if "record" in step:
            rate.record(step["record"], now_ms)
        if "unrecord" in step:
            rate.record(-step["unrecord"], now_ms)
        observed = rate.measure(now_ms)
        window_ms = rate.window_size_ms(now_ms)
        violated = observed > quota
        throttle_ms = throttle_time_ms(observed, quota, window_ms) if violated else 0
        answers = {"rate": observed, "window_ms": window_ms, "violated": violated, "throttle_ms": throttle_ms}
        answers["bounded_ms"] = min(throttle_ms, window.window_ms)
        yield step, answers | caps(step, partial(min, throttle_ms))


def replay_token_bucket(script: Script) -> Iterator[tuple[Script, Answers]]:
    """dt, then the tokens are read, then quota, record or unrecord if given."""
    bucket = TokenBucket(window_of(script), script["quota"])
    now_ms = script.get("start_ms", 0)
    for step in script["steps"]:
        now_ms += step.get("dt", 0)
        bucket.bound = step.get("quota", bucket.bound)
        before = bucket.measure(now_ms)
        if "record" in step:
            bucket.record(step["record"], now_ms)
        if "unrecord" in step:
            bucket.record(-step["unrecord"], now_ms)
        tokens = bucket.measure(now_ms)
        yield (
            step,
            {
                "tokens_before": before,
                "tokens": tokens,
                "exhausted": tokens < 0,
                "throttle_ms": bucket.throttle_ms(now_ms),
                "burst": bucket.burst,
            },
        )


def replay_throttle_formula(script: Script) -> Iterator[tuple[Script, Answers]]:
    """One row: the wait for a value observed by a rate that has just begun."""
    window_ms = Rate(window_of(script)).window_size_ms(0)
    observed, quota = script["observed"], script["quota"]
    answers: Answers = {"window_ms": window_ms, "throttle_ms": throttle_time_ms(observed, quota, window_ms)}
    yield (
        script,
        answers | caps(script, partial(bounded_throttle_time_ms, observed, quota, window_ms)),
    )


def replay_memory_pool(script: Script) -> Iterator[tuple[Script, Answers]]:
    """alloc asks for bytes; release gives back an allocation of that size, or one that was never granted."""
    try:
        pool = MemoryPool(script["size"], script["max_single"], strict=script.get("strict", False))
    except ValueError:
        yield {"result": script.get("result", "ok")}, {"result": "illegal"}
        return
    elsewhere = MemoryPool(1, 1)
    leases: dict[int, list[Lease]] = {}
    for step in script["steps"]:
        try:
            if "alloc" in step:
                lease = pool.try_allocate(step["alloc"], now_ms=0)
                result = "null" if lease is None else "ok"
                if lease is not None:
                    leases.setdefault(lease.size, []).append(lease)
            else:
                size = step["release"]
                pool.release(
                    leases[size].pop() if leases.get(size) else Lease(elsewhere, size or 0), now_ms=0
                )
                result = "ok"
        except ValueError:
            result = "illegal"
        yield (
            step,
            {"result": result, "available": pool.available, "oom": pool.available <= 0, "used": pool.used},
        )


def replay_timing_wheel(script: Script) -> Iterator[tuple[Script, Answers]]:
    """add and cancel by id; advance goes on to the next bucket that comes due."""
    wheel = TimingWheel(script["tick_ms"], script["wheel_size"], script["start_ms"])
    entries: dict[int, TimerTask] = {}
    ids: dict[TimerTask, int] = {}
    for step in script["steps"]:
        answers: Answers = {}
        match step["op"]:
            case "add":
                entry = entries[step["id"]] = TimerTask(step["expiration"])
                ids[entry] = step["id"]
                answers["accepted"] = wheel.add(entry)
                answers["bucket_expiration"] = entry.bucket.deadline_ms if entry.bucket else None
            case "cancel":
                entries[step["id"]].cancel()
            case "advance":
                advance = wheel.advance()
                answers["none"] = advance is None
                if advance is not None:
                    answers["to"] = advance.to_ms
                    answers["fired"] = [ids[entry] for entry in advance.fired]
                    answers["reinserted"] = [
                        [ids[entry], entry.bucket.deadline_ms] for entry in advance.reinserted if entry.bucket
                    ]
            case unknown:
                raise UnknownForm(f"a timing wheel has no operation {unknown}")
        yield step, answers | {"size": wheel.size}


def replay_api_row(script: Script) -> Iterator[tuple[Script, Answers]]:
    """Which headers a version has. `latest_stable` is that of one release of Kafka."""
    key, version = script["key"], script["version"]
    answers: Answers = {"latest_stable": script.get("latest_stable")}
    try:
        name = NAMES[key]
        answers["api"] = script["api"] if FORMER_NAMES.get(script["api"]) == name else name
        answers["request_header"] = request_header_version(key, version)
        answers["response_header"] = response_header_version(key, version)
    except (KeyError, ProtocolViolation):
        answers["api"] = "an API without a name"
    yield script, answers


RATES = {"name", "comment", "stat", "samples", "window_s", "window_ms", "start_ms", "steps", "dt", "quota"}
RECORDS = {"record", "unrecord", "observed"}
POOLS = {"size", "max_single", "strict", "alloc", "release"}
WHEELS = {"tick_ms", "wheel_size", "op", "id", "expiration"}
INPUTS = RATES | RECORDS | POOLS | WHEELS | {"key", "version"}
"""What a step or a script tells us, where we do not give it as an answer ourselves."""


def form_of(script: object) -> Callable[[Script], Iterator[tuple[Script, Answers]]]:
    """The replay that a line asks for, from the keys that only its form has."""
    if isinstance(script, dict):
        match script:
            case {"stat": "rate" | "simple_rate", "steps": [*_]}:
                return replay_rate
            case {"stat": "token_bucket", "steps": [*_]}:
                return replay_token_bucket
            case {"observed": _, "quota": _, "samples": _}:
                return replay_throttle_formula
            case {"max_single": _, "size": _}:
                return replay_memory_pool
            case {"wheel_size": _, "tick_ms": _, "steps": [*_]}:
                return replay_timing_wheel
            case {"api": _, "key": _, "version": _}:
                return replay_api_row
    raise UnknownForm("the keys are of no known form")


def window_of(script: Script) -> Window:
    window_ms = script["window_ms"] if "window_s" not in script else script["window_s"] * 1000
    return Window(script["samples"], int(window_ms))


def caps(step: Script, capped: Callable[[int], int]) -> Answers:
    """An answer for each `bounded_N_ms` that the step has: the wait, and never more than N."""
    found = (BOUNDED.fullmatch(key) for key in step)
    return {match[0]: capped(int(match[1])) for match in found if match}


def same(ours: object, theirs: object) -> bool:
    """Equal, where floats may differ by what another order of rounding makes of them."""
    if isinstance(ours, float) and isinstance(theirs, int | float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        return ours == theirs or math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-9)
    return ours == theirs


def replay_line(line: str, where: str) -> Tally:
    """Replays one script. What follows an unknown step is not counted."""
    tally = Tally()
    try:
        script = json.loads(line)
        for number, (step, answers) in enumerate(form_of(script)(script), 1):
            tally.steps += 1
            wrong = [
                f"{key} is {answers.get(key, 'not answered here')}, not {theirs}"
                for key, theirs in step.items()
                if (key in answers or key not in INPUTS)
                and not (key in answers and same(answers[key], theirs))
            ]
            if wrong:
                title = f"{where} {script.get('name', '')}".rstrip()
                tally.disagreements.append(f"{title} step {number}: {'; '.join(wrong)}")
            else:
                tally.agreed += 1
    except (json.JSONDecodeError, UnknownForm, KeyError, TypeError) as error:
        tally.unknown.append(f"{where}: unknown form ({type(error).__name__}: {error})")
    return tally


def replay_file(path: Path) -> Tally:
    tally = Tally()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            tally.add(replay_line(line, f"{path.name}:{number}"))
    return tally


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("usage: python -m tests.replay DIR", file=sys.stderr)
        return 2
    total = Tally()
    for path in sorted(Path(arguments[0]).glob("*.jsonl")):
        tally = replay_file(path)
        total.add(tally)
        print(f"{path.name}: {tally.agreed} of {tally.steps} steps agree")
        for problem in (tally.disagreements + tally.unknown)[:SHOWN]:
            print(f"  {problem}")
    print(f"{total.agreed} of {total.steps} steps agree")
    return total.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
