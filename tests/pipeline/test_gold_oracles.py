"""Gold compared with plain Python on random events."""

import json
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest

from pipeline.formats import CONNECTIONS, QUOTA_CHANGES, REQUESTS, THROTTLES
from pipeline.gold.connections import connection_storms, shared_client_ids_per_day
from pipeline.gold.limits import limits_over_time, utilisation_per_minute
from pipeline.gold.throttling import throttling_per_minute
from pipeline.gold.usage import BY, top_offenders_per_day, usage_per_minute
from tests.pipeline.events import connection, day_sums, quota_change, request, rows_of, taken, throttle

EVENING = 12 * 3_600
"""Return seconds from noon to the end of the day."""


@pytest.fixture
def dice():
    return random.Random(90)


def minute(event):
    """Return the minute of an event, whose time is the end of the second that it covers."""
    return datetime.fromtimestamp((event["time_ms"] - 1) // 60_000 * 60, UTC).strftime("%H:%M")


def day(event):
    return datetime.fromtimestamp((event["time_ms"] - 1) // 60_000 * 60, UTC).date()


def requests(dice, count=120):
    return [
        request(
            EVENING - 150 + dice.randrange(300),
            source=dice.choice(["client", "client", "client", "others"]),
            principal=dice.choice(["alice", "bob"]),
            client_id=dice.choice(["a", "b", "c"]),
            api=dice.choice(["Produce", "FetchConsumer", "FetchFollower", "Metadata"]),
            requests=dice.randrange(9),
            bytes_in=dice.randrange(5_000),
            bytes_out=dice.randrange(5_000),
            throttle_ms=dice.choice([0, 0, 40]),
            errors=dice.choice([{}, {"3": 1}, {"3": 2, "6": 4}]),
        )
        for _ in range(count)
    ]


def sums(events):
    """Return the values in `BY` by day, minute and client."""
    found = defaultdict(Counter)
    for each in events:
        if each["source"] == "client":
            of = found[day(each), minute(each), each["principal"], each["client_id"]]
            of["produce_bytes"] += each["bytes_in"] if each["api"] == "Produce" else 0
            of["fetch_bytes"] += each["bytes_out"] if each["api"].startswith("Fetch") else 0
            of["requests"] += each["requests"]
            of["throttle_ms"] += each["throttle_ms"]
            of["errors"] += sum(each["errors"].values())
    return found


def test_usage(spark, dice):
    events = requests(dice)
    found = usage_per_minute(taken(spark, REQUESTS, events))
    expected = [(*key, *(of[name] for name in BY)) for key, of in sums(events).items()]
    assert rows_of(found, "date", "minute", "principal", "client_id", *BY) == sorted(expected, key=repr)


@pytest.mark.parametrize("most", [1, 3, 99])
def test_offenders(spark, dice, most):
    events = requests(dice)
    days = defaultdict(Counter)
    for (date, _, *who), of in sums(events).items():
        days[date, *who].update(of)
    expected = []
    for date in {key[0] for key in days}:
        for name in BY:
            of_day = sorted((-of[name], *key[1:]) for key, of in days.items() if key[0] == date and of[name])
            total = -sum(each[0] for each in of_day)
            for rank, (negative, *who) in enumerate(of_day[:most], 1):
                expected.append((date, name, rank, *who, -negative, -negative / total))
    found = top_offenders_per_day(day_sums(taken(spark, REQUESTS, events), REQUESTS), most)
    columns = ("date", "by", "rank", "principal", "client_id", "total", "share")
    assert rows_of(found, *columns) == sorted(expected, key=repr)


def test_throttling(spark, dice):
    entities = [{"user": "alice"}, {"user": None}, {"user": "alice", "client-id": None}, {"client-id": "a"}]
    events = [
        throttle(
            EVENING - 100 + at,
            kind=dice.choice(["produce", "fetch"]),
            entity=dice.choice(entities),
            client_id=dice.choice("ab"),
            connection=dice.choice("xyz"),
            observed=float(dice.randrange(100)),
            bound=float(dice.randrange(100)),
            count=dice.randrange(1, 5),
            throttle_ms=dice.randrange(500),
            longest_ms=dice.randrange(100),
        )
        for at in range(200)
    ]
    groups = defaultdict(list)
    for each in events:
        rule = json.dumps(dict(sorted(each["entity"].items())), separators=(",", ":"))
        groups[day(each), minute(each), each["kind"], rule, each["client_id"]].append(each)
    expected = [
        (
            *key,
            sum(each["count"] for each in of),
            sum(each["throttle_ms"] for each in of),
            max(each["longest_ms"] for each in of),
            max(each["observed"] for each in of),
            max(of, key=lambda each: each["time_ms"])["bound"],
            len({each["connection"] for each in of}),
        )
        for key, of in groups.items()
    ]
    columns = (
        *("date", "minute", "kind", "rule", "client_id", "throttles", "throttle_ms", "longest_ms"),
        *("observed", "bound", "connections"),
    )
    found = throttling_per_minute(taken(spark, THROTTLES, events))
    assert rows_of(found, *columns) == sorted(expected, key=repr)


def connections(dice, count=150):
    return [
        connection(
            EVENING - 120 + dice.randrange(240),
            event=dice.choice(["opened", "opened", "refused", "throttled", "closed"]),
            address=dice.choice(["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
            principal=dice.choice(["alice", "bob"]),
            client_id=dice.choice(["", "a", "b", "c", "d", "e"]),
            count=dice.randrange(1, 30),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("least", [1, 60, 120])
def test_storms(spark, dice, least):
    events = connections(dice)
    groups = defaultdict(Counter)
    for each in events:
        if each["event"] != "closed":
            groups[day(each), minute(each), each["address"]][each["event"]] += each["count"]
    kinds = ("opened", "refused", "throttled")
    expected = [
        (*key, *(of[kind] for kind in kinds), of["opened"] + of["refused"])
        for key, of in groups.items()
        if of["opened"] + of["refused"] >= least
    ]
    found = connection_storms(taken(spark, CONNECTIONS, events), least)
    assert rows_of(found, "date", "minute", "address", *kinds, "attempts") == sorted(expected, key=repr)


def test_shared_client_ids(spark, dice):
    events = connections(dice, 40)
    groups = defaultdict(list)
    for each in events:
        if each["event"] == "closed" and each["client_id"]:
            # The day of the event's own time, not of a minute.
            date = datetime.fromtimestamp(each["time_ms"] / 1000, UTC).date()
            groups[date, each["client_id"]].append(each)
    expected = []
    for key, of in groups.items():
        names, addresses = ({each[name] for each in of} for name in ("principal", "address"))
        if len(names) > 1 or len(addresses) > 1:
            used = sum(each["count"] for each in of)
            expected.append((*key, sorted(names), sorted(addresses), used, len(names) > 1))
    columns = ("date", "client_id", "principals", "addresses", "connections", "is_shared_by_principals")
    found = shared_client_ids_per_day(day_sums(taken(spark, CONNECTIONS, events), CONNECTIONS))
    assert rows_of(found, *columns) == sorted(expected, key=repr)


def test_utilisation(spark, dice):
    names = {"user": ["alice", "bob", None], "client-id": ["a", "b", None]}
    changes = []
    for version in range(60):
        kinds = dice.choice([["user"], ["client-id"], ["user", "client-id"]])
        changes.append(
            quota_change(
                dice.randrange(-60, 300),
                version,
                entity={kind: dice.choice(names[kind]) for kind in kinds},
                new=dice.choice([None, float(dice.randrange(1, 100))]),
            )
        )
    changes.sort(key=lambda each: each["time_ms"])
    for version, each in enumerate(changes):
        each["version"] = version
    events = [
        request(
            dice.randrange(1, 300),
            principal=dice.choice(["alice", "bob", "carol"]),
            client_id=dice.choice("abc"),
            bytes_in=dice.randrange(9_000),
        )
        for _ in range(80)
    ]
    usage = usage_per_minute(taken(spark, REQUESTS, events))
    limits = limits_over_time(taken(spark, QUOTA_CHANGES, changes))
    found = utilisation_per_minute(usage, limits).where("key = 'producer_byte_rate'")
    rows = [
        (row["minute"].strftime("%H:%M"), row["rule"], row["sharer"], round(row["utilisation"], 9))
        for row in found.collect()
    ]
    assert sorted(rows) == sorted(_utilised(events, changes))


def _utilised(events, changes):
    shared = defaultdict(float)
    bounds = {}
    for (_, at, principal, client_id), of in sums(events).items():
        end = next(each["time_ms"] for each in events if minute(each) == at)
        end = (end - 1) // 60_000 * 60_000 + 60_000
        in_force = {}
        for each in changes:
            if each["time_ms"] < end:
                in_force[tuple(sorted(each["entity"].items()))] = each["new"]
        for user, client in (
            *((principal, client_id), (principal, None), (principal, ...), (None, client_id)),
            *((None, None), (None, ...), (..., client_id), (..., None)),
        ):
            pairs = {"user": user, "client-id": client}
            entity = {kind: name for kind, name in sorted(pairs.items()) if name is not ...}
            bound = in_force.get(tuple(entity.items()))
            if bound is not None:
                who = {"user": principal, "client-id": client_id}
                sharer = [who[kind] for kind in ("user", "client-id") if kind in entity]
                key = (at, *(json.dumps(each, separators=(",", ":")) for each in (entity, sharer)))
                shared[key] += of["produce_bytes"] / 60
                bounds[key] = bound
                break
    return [(*key, round(rate / bounds[key], 9)) for key, rate in shared.items()]
