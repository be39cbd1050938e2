"""A program that simulates recorded days with the current rules and with proposed ones, without Spark.

webui.insights.what_if starts it as `python -m webui.insights.replay WAREHOUSE`: one question on standard
input, one answer on standard output, both JSON. `weir pipeline what-if` gives the same result for the same
warehouse. The broker's own quota code decides the throttles (broker.simulation).
"""

import json
import os
import resource
import signal
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from msgspec.structs import replace

from broker.common.principal import ANONYMOUS
from broker.common.strict_yaml import BadFileError
from broker.simulation.engine import LoadSource, SimulationResult, TooManyEventsError, run_scenario
from broker.simulation.scenario import APIS, CLIENT, VERSIONS, Limit
from broker.simulation.scenario_file import read_limits, read_scenario
from broker.simulation.summary import ClientGroupTotals, groups, limits_without_effect, rules
from webui.insights.location import of_table, storage_options
from webui.insights.worker import ENGINE, MAX_MEMORY

REQUESTS: Final = "__weir_requests"
PROPOSED: Final = "quotas"
"""The name by which messages call the proposed quota file."""

MAX_RECORDS: Final = 4_000_000
"""Maximum number of recorded seconds per client and API; each takes 56 bytes."""

MAX_SIMULATED: Final = 20_000_000
"""Maximum number of requests simulated one by one, for each set of rules: about two minutes."""

MAX_CLIENTS: Final = 200

JsonObject = dict[str, Any]


class NoResult(Exception):  # noqa: N818 - an answer
    """There is no result. `outcome` is the reason: `none`, `damaged`, `empty`, `nodes`, `clusters` or
    `too many`.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


class Load:
    """The clients' recorded traffic per second, as columns of numbers."""

    def __init__(self) -> None:
        self._streams: dict[tuple[str, str, str], int] = {}
        self._columns = [array("q") for _ in range(6)]
        self.first_ms: int | None = None

    def __len__(self) -> int:
        return len(self._columns[0])

    def take(self, event: Mapping[str, Any], partition: int, offset: int) -> None:
        """Add an event. The result does not depend on the order of events."""
        time_ms, api = event["time_ms"], event["api"]
        self.first_ms = time_ms if self.first_ms is None else min(self.first_ms, time_ms)
        if api not in APIS or not event["requests"]:
            return
        names = _name(event, "principal", ANONYMOUS), _name(event, "client_id", "")
        stream = self._streams.setdefault((*names, api), len(self._streams))
        row = time_ms, partition, offset, stream, event["requests"], event[APIS[api][1]]
        for column, value in zip(self._columns, row, strict=True):
            column.append(value)

    def lines(self) -> Iterator[str]:
        """Yield the lines for `scenario_file.read_recorded`, ordered by time, partition and offset."""
        order: Iterable[int] = range(len(self))
        for column in reversed(self._columns[:3]):
            order = sorted(order, key=column.__getitem__)
        # Start at the first event, even if its API is not simulated.
        yield _line(self.first_ms or 0, ("", "", ""), 0, 0)
        names = list(self._streams)
        times, _, _, streams, requests, nbytes = self._columns
        for row in order:
            yield _line(times[row], names[streams[row]], requests[row], nbytes[row])


def _name(event: Mapping[str, Any], field: str, unnamed: str) -> Any:
    """Return a name of the client; if the event lacks it, what a broker writes then."""
    name = event.get(field)
    return unnamed if name is None else name


def _line(time_ms: int, stream: tuple[str, str, str], requests: int, nbytes: int) -> str:
    principal, client_id, api = stream
    event = {"v": VERSIONS[-1], "time_ms": time_ms, "source": CLIENT, "principal": principal, "api": api}
    counts = {"requests": requests, "bytes_in": nbytes, "bytes_out": nbytes}
    return json.dumps(event | {"client_id": client_id} | counts)


def recorded(root: Path | str, first: date, last: date, node: int | None, cluster: str | None = None) -> Load:
    """Return the traffic of one broker's clients from `first` to `last`, inclusive, in UTC; `node` None
    selects the only broker, `cluster` None the only cluster, "" records without a cluster. Raises NoResult.
    """
    # An event may be stored under a day next to its own.
    days = f"date BETWEEN DATE '{_shifted(first, -1)}' AND DATE '{_shifted(last, 1)}'"
    places = 'partition, "offset", headers'
    quarantined = {
        (partition, offset, _cluster(headers))
        for partition, offset, headers in _rows(root, "silver/quarantine", places, f"topic = '{REQUESTS}'")
    }
    from_ms, until_ms = _midnight_ms(first), _midnight_ms(_shifted(last, 1))
    columns, load = 'partition, "offset", value, headers', Load()
    nodes: set[int | None] = set()
    clusters: set[str | None] = set()
    for partition, offset, value, headers in _rows(
        root, "bronze/events", columns, f"topic = '{REQUESTS}' AND {days}", must_be=True
    ):
        at, its_cluster = _node(headers), _cluster(headers)
        if (partition, offset, its_cluster) in quarantined or node not in (None, at):
            continue
        if cluster not in (None, its_cluster or ""):
            continue
        try:
            event = json.loads(value)
            if event["source"] == CLIENT and from_ms <= event["time_ms"] < until_ms:
                load.take(event, partition, offset)
                nodes.add(at)
                clusters.add(its_cluster)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            where = f"{REQUESTS}, partition {partition}, offset {offset}"
            raise NoResult(
                "damaged", f"The record {where} is not an event and is not in the quarantine."
            ) from error
        if len(clusters - {None}) > 1:
            raise NoResult("clusters", "Several clusters have clients in this period: choose a cluster.")
        if len(nodes) > 1:
            raise NoResult(
                "nodes", f"Several brokers have clients in this period: choose one of {_listed(nodes)}."
            )
        if len(load) > MAX_RECORDS:
            raise NoResult(
                "too many",
                f"Clients have more than {MAX_RECORDS:,} recorded seconds in this period: request fewer "
                "days, or use `weir pipeline what-if`.",
            )
    if not len(load):
        words = f"on {first}" if first == last else f"from {first} to {last}"
        where = "" if node is None else f" at node {node}"
        raise NoResult("empty", f"No client produced or fetched{where} {words}.")
    return load


def _rows(
    root: Path | str, table: str, columns: str, where: str, *, must_be: bool = False
) -> Iterator[tuple[Any, ...]]:
    """Raises NoResult."""
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import TableNotFoundError

    try:
        place = of_table(str(root), table)
        found = DeltaTable(place, storage_options=storage_options(str(root), os.environ))
    except TableNotFoundError:
        if must_be:
            raise NoResult("none", f"There is no table {table} yet.") from None
        return
    except Exception as error:
        raise NoResult("damaged", f"The log of the table {table} cannot be read.") from error
    try:
        engine = QueryBuilder(ENGINE).register("t", found)
        for batch in engine.execute(f"SELECT {columns} FROM t WHERE {where}"):  # noqa: S608 - built from dates
            named = [batch.column(at) for at in range(batch.num_columns)]
            yield from zip(*((each.as_py() for each in column) for column in named), strict=True)
    except Exception as error:
        # The engine has no specific exception type.
        raise NoResult("damaged", f"A file of the table {table} is missing or cannot be read.") from error


def _node(headers: Sequence[Mapping[str, Any]] | None) -> int | None:
    """Return the node id from the first header `node`, as the pipeline does."""
    node = _header(headers, "node")
    try:
        return None if node is None else int(node)
    except ValueError:
        return None


def _cluster(headers: Sequence[Mapping[str, Any]] | None) -> str | None:
    cluster = _header(headers, "cluster")
    return None if cluster is None else cluster.decode(errors="replace")


def _header(headers: Sequence[Mapping[str, Any]] | None, name: str) -> bytes | None:
    return next((each["value"] for each in headers or () if each["key"] == name), None)


def _listed(nodes: set[int | None]) -> str:
    return ", ".join(sorted("none" if node is None else str(node) for node in nodes))


def _shifted(day: date, days: int) -> date:
    """Shift a day, clamped to the calendar's range."""
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))


def _midnight_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1_000)


def simulate_both(
    lines: Iterable[str], now: list[JsonObject], proposed: str, *, keep_unlisted: bool
) -> tuple[SimulationResult, SimulationResult]:
    """Simulate with both sets of rules; `proposed` is the text of a quota file. With `keep_unlisted`, rules
    of now stay for entities that it does not list. Raises BadFileError and TooManyEventsError.
    """
    with TemporaryDirectory() as folder:
        root = Path(folder)
        with (root / "load.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        (root / PROPOSED).write_text(proposed, encoding="utf-8")
        (root / "now.yaml").write_text(json.dumps({"quotas": now}), encoding="utf-8")
        (root / "what-if.yaml").write_text(json.dumps({"recorded": "load.jsonl", "quotas": "now.yaml"}))
        limits = read_limits(root / PROPOSED)
        before = read_scenario(root / "what-if.yaml")
        if keep_unlisted:
            limits = _with_unlisted(limits, before.limits)
        after = replace(before, limits=limits)
        return run_scenario(before, MAX_SIMULATED), run_scenario(after, MAX_SIMULATED)


def _with_unlisted(limits: tuple[Limit, ...], more: tuple[Limit, ...]) -> tuple[Limit, ...]:
    listed = {limit.entity for limit in limits}
    return (*limits, *(limit for limit in more if limit.entity not in listed))


def comparison(before: SimulationResult, after: SimulationResult) -> JsonObject:
    """Return the clients throttled under either set of rules: first those whose share of throttled time
    grows most, then by that share.
    """
    pairs = list(zip(groups(before), groups(after), strict=True))
    throttled = [
        (client.source, row, other)
        for client, (row, other) in zip(before.clients, pairs, strict=True)
        if row.totals.throttles or other.totals.throttles
    ]
    throttled.sort(key=lambda each: (-_growth(*each[1:]), -each[2].totals.throttled_share))
    return {
        "seconds": before.scenario.duration_us // 1_000_000,
        "clients": len(pairs),
        "throttled_now": sum(1 for row, _ in pairs if row.totals.throttles),
        "throttled_proposed": sum(1 for _, row in pairs if row.totals.throttles),
        "throttled_more": sum(1 for row, other in pairs if _growth(row, other) > 0),
        "throttled_less": sum(1 for row, other in pairs if _growth(row, other) < 0),
        "rules_met": len(rules(after)),
        "not_simulated": limits_without_effect(after.scenario)[:MAX_CLIENTS],
        "items": [_item(*each) for each in throttled[:MAX_CLIENTS]],
    }


def _growth(row: ClientGroupTotals, other: ClientGroupTotals) -> float:
    """Return the increase of the share of throttled time."""
    return other.totals.throttled_share - row.totals.throttled_share


def _item(source: LoadSource, row: ClientGroupTotals, other: ClientGroupTotals) -> JsonObject:
    return {
        "user": source.user,
        "client_id": source.client_id,
        "key": row.key,
        "offered_bytes": row.totals.offered,
        "now": _totals_json(row),
        "proposed": _totals_json(other),
    }


def _totals_json(row: ClientGroupTotals) -> JsonObject:
    (rule,) = row.rules
    return {
        "rule": {} if rule is None else dict(rule[0].pairs),
        "limit": None if rule is None else rule[2],
        "throttles": row.totals.throttles,
        "throttled_share": round(row.totals.throttled_share, 6),
        "longest_ms": row.totals.longest_ms,
        "accepted_bytes": row.totals.accepted,
        "waiting_bytes": row.totals.waiting + row.totals.expired,
    }


def _file(question: Mapping[str, Any]) -> str:
    """Return the proposed quota file: the lines of the caller's file, or one with the proposed rules."""
    lines = question["lines"]
    return json.dumps({"quotas": question["proposed"]}) if lines is None else "\n".join(lines)


def answer(root: Path | str, question: Mapping[str, Any]) -> JsonObject:
    days = date.fromisoformat(question["first"]), date.fromisoformat(question["last"])
    try:
        load = recorded(root, *days, question["node"], question["cluster"])
        return {"outcome": "simulated"} | comparison(
            *simulate_both(
                load.lines(),
                question["now"],
                _file(question),
                keep_unlisted=question["keep_unlisted"],
            )
        )
    except NoResult as no_result:
        return {"outcome": no_result.outcome, "message": str(no_result)}
    except BadFileError as error:
        return {"outcome": "refused", "message": str(error)}
    except TooManyEventsError as error:
        return {"outcome": "too many", "message": str(error)}
    except OSError as error:
        words = f"Cannot write the recorded traffic to a temporary file: {error.strerror}."
        return {"outcome": "no disk space", "message": words}
    except ImportError:
        return {"outcome": "missing"}


def main() -> None:
    os.nice(10)
    # The parent has gone: raise an exception, so that the temporary directory is removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    json.dump(answer(sys.argv[1], json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
