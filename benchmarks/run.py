"""The benchmark's command: `python -m benchmarks.run`, or `make bench`.

Each broker runs alone; rounds rotate the order, so that none always follows the same peer. An interrupted
run continues when it is called again with the same options at the same commit.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.cells import START, Cell, Cells
from benchmarks.install import INSTALLERS, WEIR_PROGRAM, InstallError, has_openssl, install_load_program
from benchmarks.loads import AT_HALF_WARM_UP_S, LOADS, PEAK_S, LoadError, measure, prepared
from benchmarks.memory import warm_memory
from benchmarks.peers import PEERS, TLS_PEERS, Peer, weir_program
from benchmarks.process import Broker, BrokerError, busy_s, own_s, running
from benchmarks.report import write_report

RESULTS: Final = Path(__file__).resolve().parent / "results"
SETTLE_S: Final = 2.0  # before idle memory is read
OVERHEAD_S: Final = 3.0  # per load, as measured: topic, fill, write-back, deletion
WAKING_S: Final = 5.0  # in addition, if the load writes
REHEARSAL_S: Final = 10.0
STAND_OVERHEAD_S: Final = 5.0  # per broker and round, as measured: preparation, start, end

_Parse = Callable[[click.Context, click.Parameter, str | None], list[str]]


def _names(known: Collection[str]) -> _Parse:
    def parse(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str]:
        names = value.split(",") if value else list(known)
        if unknown := [name for name in names if name not in known]:
            raise click.BadParameter(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return names

    return parse


def _commit() -> str:
    described = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _weir_build() -> str:
    """Return how Weir runs: compiled or interpreted, and its Python."""
    program = Path(weir_program())
    ask = "import platform; print(platform.python_version())"
    commands = ([str(program), "--version"], [str(program.with_name("python")), "-P", "-c", ask])
    version, python = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        for command in commands
    )
    kind = "interpreted" if ", interpreted" in version else "compiled"
    return f"{kind}, CPython {python}"


def _folder(settings: dict[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return RESULTS / f"{settings['commit']}-{digest[:8]}"


def expected_seconds(settings: dict[str, Any]) -> float:
    """Return the duration of a whole run, from its settings alone."""
    total = 0.0
    for peer in (PEERS[name] for name in settings["peers"]):
        total += STAND_OVERHEAD_S + SETTLE_S + len(peer.rehearsal) * (REHEARSAL_S + OVERHEAD_S)
        for load in (LOADS[name] for name in settings["loads"]):
            total += settings["seconds"] + peer.warm_up_s + OVERHEAD_S + WAKING_S * load.writes
            total += (PEAK_S + AT_HALF_WARM_UP_S) * load.at_half
        if peer.name in TLS_PEERS and any(LOADS[name].tls for name in settings["loads"]):
            total += STAND_OVERHEAD_S + len(peer.rehearsal) * (REHEARSAL_S + OVERHEAD_S)
    return total * float(settings["rounds"])


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')}  {text}")


def _measure_start(broker: Broker) -> dict[str, Any]:
    time.sleep(SETTLE_S)
    broker.check_alive()
    memory = broker.memory()
    return {
        "first_answer_s": round(broker.first_answer_s, 3),
        "resident": memory.resident,
        "anonymous": memory.anonymous,
    }


def _measure_load(broker: Broker, peer: str, load: str, seconds: float) -> dict[str, Any]:
    warm_up_s = PEERS[peer].warm_up_s
    with prepared(LOADS[load], broker.port) as topic:
        os.sync()  # so that earlier writes are not written back during this load
        with warm_memory(LOADS[load].takes(seconds, warm_up_s)):
            began, busy_before, own_before, cpu_before = time.monotonic(), busy_s(), own_s(), broker.cpu_s()
            result = measure(LOADS[load], broker.port, topic, seconds=seconds, warm_up_s=warm_up_s)
            cpu_s = broker.cpu_s() - cpu_before
            others_s = busy_s() - busy_before - (own_s() - own_before) - cpu_s
            took_s = time.monotonic() - began
        broker.check_alive()
        memory = broker.memory()
        result |= {"resident": memory.resident, "anonymous": memory.anonymous, "peak": memory.peak}
        result["broker_cpu_us"] = cpu_s / result["answered"] * 1e6
        result["others_share"] = max(others_s, 0) / took_s / len(os.sched_getaffinity(0))
    return result


def _rehearse(broker: Broker, peer: str) -> None:
    for name in PEERS[peer].rehearsal:
        load = replace(LOADS[name], tls=broker.tls)
        with prepared(load, broker.port) as topic:
            measure(load, broker.port, topic, seconds=REHEARSAL_S, warm_up_s=0)


def _stand(cells: Cells, round_number: int, peer: str, scratch: Path, deadline: float) -> None:
    """Run one broker with every load that this round still lacks, and another with the loads over TLS."""
    missing = [load for load in cells.settings["loads"] if not cells.has(round_number, peer, load)]
    plain = [load for load in missing if not LOADS[load].tls]
    encrypted = [load for load in missing if LOADS[load].tls]
    if plain or not cells.has(round_number, peer, START):
        _stand_with(PEERS[peer], plain, cells, round_number, scratch, deadline)
    if encrypted and peer in TLS_PEERS and has_openssl() and time.monotonic() < deadline:
        _stand_with(TLS_PEERS[peer], encrypted, cells, round_number, scratch, deadline)


def _stand_with(
    found: Peer, missing: list[str], cells: Cells, round_number: int, scratch: Path, deadline: float
) -> None:
    peer, load = found.name, missing[0] if found.tls else START
    try:
        with running(found, scratch) as broker:
            if not found.tls:
                _keep(cells, Cell(round_number, peer, START, _measure_start(broker)))
            if missing:
                _rehearse(broker, peer)
            for load in missing:
                if time.monotonic() > deadline:
                    return
                try:
                    result = _measure_load(broker, peer, load, cells.settings["seconds"])
                except LoadError as failure:
                    broker.check_alive()
                    result = {"failed": str(failure)}
                _keep(cells, Cell(round_number, peer, load, result))
    except (BrokerError, LoadError, OSError, subprocess.CalledProcessError) as failure:
        _keep(cells, Cell(round_number, peer, load, {"failed": str(failure)}))


def _keep(cells: Cells, cell: Cell) -> None:
    cells.add(cell)
    if cell.failed:
        brief = f"FAILED: {cell.result['failed']}"
    elif cell.load == START:
        brief = f"{cell.result['first_answer_s']:>12.3f} seconds"
    elif LOADS[cell.load].at_half:
        brief = f"{cell.result['p99_us']:>12,.1f} us, p99"
    else:
        measured = LOADS[cell.load].measure
        brief = f"{cell.result[measured]:>12,.1f} {measured.replace('_', ' ')}"
    _say(f"round {cell.round}  {cell.peer:6} {cell.load:15} {brief}")


def _install(peers: list[str], loads: list[str]) -> None:
    try:
        install_load_program()
        tools = {"kafka"} if any(LOADS[load].ask.startswith("java_") for load in loads) else set()
        for peer in sorted(tools.union(peers)):
            _say(f"{peer}: installing")
            INSTALLERS[peer]()
    except InstallError as error:
        raise click.ClickException(str(error)) from error


@click.command()
@click.option("--peers", callback=_names(PEERS), help="Comma-separated; default: all.")
@click.option("--loads", callback=_names(LOADS), help="Comma-separated; default: all.")
@click.option("--seconds", default=6.0, show_default=True, help="Counted time of one load.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--limit-minutes", default=120.0, show_default=True, help="Start no load after this time.")
@click.option("--fresh", is_flag=True, help="Do not continue an earlier run of the same settings.")
@click.option(
    "--write/--no-write",
    default=None,
    help="Write into docs/benchmarks-figures.md; default: for a whole run only.",
)
def main(
    peers: list[str],
    loads: list[str],
    seconds: float,
    rounds: int,
    limit_minutes: float,
    fresh: bool,
    write: bool | None,
) -> None:
    """Measure Weir and its peers, and print medians and ratios as Markdown."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)  # inherited: every broker and every load has the same two cores
    _install(peers, loads)
    if "weir" in peers:
        os.environ.setdefault("WEIR_PROGRAM", str(WEIR_PROGRAM))
    settings = {
        "peers": peers,
        "loads": loads,
        "seconds": seconds,
        "rounds": rounds,
        "commit": _commit(),
        "weir": _weir_build(),
    }
    cells = Cells.resume_or_begin(_folder(settings), settings, fresh=fresh)
    _say(f"about {expected_seconds(settings) / 60:.0f} min on cores {cores}, at most {limit_minutes:g}")
    _say(f"{len(cells.by_key)} cells are already measured, in {cells.folder}")
    deadline = time.monotonic() + limit_minutes * 60
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=RESULTS) as scratch:
        for round_number in range(1, rounds + 1):
            first = (round_number - 1) % len(peers)
            for peer in [*peers[first:], *peers[:first]]:
                _stand(cells, round_number, peer, Path(scratch), deadline)
    in_time = time.monotonic() < deadline
    whole = peers == list(PEERS) and loads == list(LOADS) and in_time
    write_report(cells, into_docs=whole if write is None else write)
    if not in_time:
        sys.exit("the time limit ended the run; call it again to continue")
    if failures := cells.failures():
        sys.exit(f"{len(failures)} cells failed; call it again to repeat them")


if __name__ == "__main__":
    main()
