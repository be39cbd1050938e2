"""A recorded load in parts, compared with the same load as a whole."""

import random

import pytest

from broker.quotas.entity import DEFAULT, Entity
from broker.quotas.kinds import QuotaKind
from broker.simulation.engine import run_scenario
from broker.simulation.parts import SETTINGS, RecordedClient, joined, parts_of, simulate_part
from broker.simulation.report import in_json
from broker.simulation.scenario import SECOND_US, ClientLoad, Limit, Scenario
from broker.simulation.summary import summary_of

BYTES = {"producer_byte_rate": 3_000.0, "consumer_byte_rate": 5_000.0}
LIMITS = (
    Limit(Entity(user="u0"), BYTES),
    Limit(Entity(user="u1", client_id="c0"), {"producer_byte_rate": 700.0}),
    Limit(Entity(user="u2", client_id=DEFAULT), {"producer_byte_rate": 900.0}),
    Limit(Entity(client_id="c3"), {"producer_byte_rate": 2_000.0}),
    Limit(Entity(user=DEFAULT), {"consumer_byte_rate": 4_000.0}),
    Limit(Entity(client_id=DEFAULT), {"producer_byte_rate": 1_500.0, "request_percentage": 5.0}),
    Limit(Entity(user="u5"), {"producer_byte_rate": 10.0}, is_shadow=True),
)


def load(dice, users=7, client_ids=5):
    records = []
    for user in range(users):
        for client_id in range(client_ids):
            for kind in (QuotaKind.PRODUCE, QuotaKind.FETCH):
                record = ClientLoad(f"u{user}", f"c{client_id}", kind)
                for second in sorted(dice.sample(range(120), dice.randrange(1, 40))):
                    record.seconds.append(second)
                    record.requests.append(dice.randrange(1, 20))
                    record.nbytes.append(dice.choice((0, 300, 2_000, 40_000)))
                records.append(record)
    dice.shuffle(records)
    return records


def in_parts(records, limits, duration_us):
    clients = [RecordedClient(each.user, each.client_id, each.kind) for each in records]
    placed = parts_of(clients, limits)
    totals, events = [None] * len(records), 0
    for part in {each.part for each in placed}:
        places = [at for at, each in enumerate(placed) if each.part == part]
        found, played = simulate_part([records[at] for at in places], limits, duration_us)
        events += played
        for at, each in zip(places, found, strict=True):
            totals[at] = each
    return joined(clients, placed, totals, limits, duration_us, events)


@pytest.mark.parametrize("limits", [(), LIMITS[:1], LIMITS[-2:], LIMITS])
@pytest.mark.parametrize("seed", range(3))
def test_parts_together_are_the_whole(limits, seed):
    records = load(random.Random(seed))
    duration_us = (max(each.seconds[-1] for each in records) + 1) * SECOND_US
    whole = summary_of(run_scenario(Scenario(duration_us, limits, SETTINGS, records=tuple(records))))
    assert in_json(in_parts(records, limits, duration_us)) == in_json(whole)
    assert any(row.totals.throttles for row in whole.groups) or not limits


def parts(*clients):
    """Return the numbers of the parts of producers, written as user/client-id."""
    made = [RecordedClient(*each.split("/"), QuotaKind.PRODUCE) for each in clients]
    return [each.part for each in parts_of(made, LIMITS)]


def test_clients_that_share_an_allowance_are_in_one_part():
    # A user's limit is shared by the client ids; a pair's, and a default client id's, are not.
    assert parts("u0/c0", "u0/c1", "u1/c0", "u0/c2") == [0, 0, 1, 0]
    assert parts("u2/c0", "u2/c1", "u2/c0") == [0, 1, 0]
    # A client id's limit is shared by the users.
    assert parts("u7/c3", "u8/c3", "u8/c4", "u9/c4") == [0, 0, 1, 1]


def test_a_producer_shares_nothing_with_a_consumer():
    made = [RecordedClient("u0", "c0", kind) for kind in (QuotaKind.PRODUCE, QuotaKind.FETCH)]
    assert [each.part for each in parts_of(made, LIMITS)] == [0, 1]


def test_clients_without_a_limit_share_nothing():
    made = [RecordedClient("u0", "c0", QuotaKind.PRODUCE)] * 2
    assert [(each.part, each.entity) for each in parts_of(made, ())] == [(0, None), (1, None)]
