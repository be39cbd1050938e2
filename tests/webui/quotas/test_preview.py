"""Whom an edit would reach, before it is made."""

import trio

from broker.control.commands import EntityPairs, QuotaOp
from tests.webui.fakes import FakeBroker
from tests.webui.rows import connection
from webui.quotas.preview import AT_ONCE, MOST_CLIENTS, Reach, preview

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
ALICE: EntityPairs = (("user", "alice"),)
ALICE_APP: EntityPairs = (("user", "alice"), ("client-id", "app"))
ANYBODY: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)


def broker_with(*clients: tuple[str, str]) -> FakeBroker:
    rows = [connection(client_id, user, index) for index, (user, client_id) in enumerate(clients)]
    return FakeBroker(connection_rows=rows)


async def reach(broker: FakeBroker, entity: EntityPairs, value: float | None, key: str = PRODUCE) -> Reach:
    [answer] = await preview(broker, entity, [QuotaOp(key, value)], broker.connections())
    return answer


async def test_a_client_is_counted_once_however_many_connections_it_has() -> None:
    broker = broker_with(("alice", "app"), ("alice", "app"), ("alice", "other"), ("bob", "app"))
    assert await reach(broker, APP, 10.0) == Reach(PRODUCE, clients=2, unmeasured=2)
    assert await reach(broker, ALICE, 10.0) == Reach(PRODUCE, clients=2, unmeasured=2)
    assert await reach(broker, (("user", "carol"),), 10.0) == Reach(PRODUCE)


async def test_the_rule_that_goes_before_keeps_its_clients() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    assert await reach(broker, APP, 10.0) == Reach(PRODUCE, clients=1, unmeasured=1, shadowed={ALICE: 1})
    # For another key that rule says nothing.
    assert await reach(broker, APP, 10.0, FETCH) == Reach(FETCH, clients=2, unmeasured=2)


async def test_a_rule_before_the_present_one_takes_its_clients() -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.observed = {ALICE: {PRODUCE: 4.0}}
    assert await reach(broker, ALICE_APP, 10.0) == Reach(PRODUCE, clients=1)


async def test_above_the_new_limit_is_above_not_at() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.observed = {ALICE: {PRODUCE: 4.0}}
    assert [(await reach(broker, ALICE, value)).over for value in (3.9, 4.0, 4.1)] == [1, 0, 0]


async def test_a_removal_says_where_its_clients_go() -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"), ("bob", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.set(APP, {PRODUCE: 7.0})
    assert await reach(broker, ALICE, None) == Reach(PRODUCE, clients=2, falls_to={7.0: 1, None: 1})
    assert await reach(broker, APP, None) == Reach(
        PRODUCE, clients=1, falls_to={None: 1}, shadowed={ALICE: 1}
    )


async def test_removing_what_is_not_there_reaches_nobody() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {FETCH: 5.0})
    assert await reach(broker, ALICE, None) == Reach(PRODUCE)


async def test_every_op_has_its_own_answer() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    ops = [QuotaOp(FETCH, 1.0), QuotaOp(PRODUCE, None), QuotaOp("nonsense", 1.0)]
    answers = await preview(broker, ALICE, ops, broker.connections())
    assert [(one.key, one.clients) for one in answers] == [(FETCH, 1), (PRODUCE, 1), ("nonsense", 0)]


async def test_the_work_is_bounded_and_lets_others_run() -> None:
    broker = broker_with(*(("alice", f"app {index}") for index in range(MOST_CLIENTS + 5)))
    beats = 0

    async def others() -> None:
        nonlocal beats
        while True:
            beats += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        answer = await reach(broker, ALICE, 10.0)
        nursery.cancel_scope.cancel()
    assert answer.clients == MOST_CLIENTS and beats >= MOST_CLIENTS // AT_ONCE - 1
