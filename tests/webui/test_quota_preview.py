"""The preview of an edit: the clients that it reaches, from which limit to which."""

import pytest
from msgspec.structs import replace

from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.rows.quotas import FirstWait
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.polls import Polls
from tests.webui.rows import connection
from webui.quota_preview import (
    MAX_CLIENTS,
    ConnectedClient,
    LimitingRule,
    MovedClients,
    Reach,
    connected_clients,
    preview,
)
from webui.tables import slices

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"
ALICE: EntityPairs = (("user", "alice"),)
ALICE_APP: EntityPairs = (("user", "alice"), ("client-id", "app"))
DEFAULT_USER: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)
NOTHING = LimitingRule()


def broker_with(*clients: tuple[str, str]) -> FakeBroker:
    rows = [connection(client_id, user, index) for index, (user, client_id) in enumerate(clients)]
    return FakeBroker(connection_rows=rows)


def counts(reach: Reach) -> Reach:
    """Return the reach without moves, emptied rules and first throttles, which have tests of their own."""
    return replace(reach, counted=0, moves={}, emptied=[], first_wait=None)


async def reach(broker: FakeBroker, entity: EntityPairs, value: float | None, key: str = PRODUCE) -> Reach:
    return counts(await whole_reach(broker, entity, value, key))


async def whole_reach(
    broker: FakeBroker, entity: EntityPairs, value: float | None, key: str = PRODUCE
) -> Reach:
    edit = QuotaAlteration(entity, (QuotaOp(key, value),))
    [answer] = await preview(broker.views, (edit,), await connected_clients(broker.views))
    return answer


def targets(reach: Reach) -> dict[float | None, int]:
    """Return the number of clients by their new limit."""
    found: dict[float | None, int] = {}
    for (_, after), move in reach.moves.items():
        found[after.bound] = found.get(after.bound, 0) + move.clients
    return found


async def test_a_client_is_counted_once_however_many_connections_it_has() -> None:
    broker = broker_with(("alice", "app"), ("alice", "app"), ("alice", "other"), ("bob", "app"))
    assert await reach(broker, APP, 10.0) == Reach(PRODUCE, clients=2, unmeasured=2)
    assert await reach(broker, ALICE, 10.0) == Reach(PRODUCE, clients=2, unmeasured=2)
    assert await reach(broker, (("user", "carol"),), 10.0) == Reach(PRODUCE)


async def test_the_rule_that_goes_before_keeps_its_clients() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    assert await reach(broker, APP, 10.0) == Reach(PRODUCE, clients=1, unmeasured=1, outranked={ALICE: 1})
    # For another key that rule says nothing.
    assert await reach(broker, APP, 10.0, FETCH) == Reach(FETCH, clients=2, unmeasured=2)


async def test_a_rule_before_the_present_one_takes_its_clients() -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.observed = {ALICE: {PRODUCE: 4.0}}
    assert await reach(broker, ALICE_APP, 10.0) == Reach(PRODUCE, clients=1, unmeasured=1)
    broker.usage_rows = [usage("alice", "app", 11.0), usage("alice", "other", 1.0)]
    assert await reach(broker, ALICE_APP, 10.0) == Reach(PRODUCE, clients=1, over=1)


async def test_above_the_new_limit_is_above_not_at() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.observed = {ALICE: {PRODUCE: 4.0}}
    assert [(await reach(broker, ALICE, value)).over for value in (3.0, 4.0, 5.0)] == [1, 0, 0]


async def test_a_removal_says_where_its_clients_go() -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"), ("bob", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    broker.set(APP, {PRODUCE: 7.0})
    removal = await whole_reach(broker, ALICE, None)
    assert (counts(removal), targets(removal)) == (Reach(PRODUCE, clients=2), {7.0: 1, None: 1})
    removal = await whole_reach(broker, APP, None)
    assert counts(removal) == Reach(PRODUCE, clients=1, outranked={ALICE: 1})
    assert targets(removal) == {None: 1}


async def test_removing_a_missing_limit_affects_no_client() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {FETCH: 5.0})
    assert await reach(broker, ALICE, None) == Reach(PRODUCE)


async def test_every_op_has_its_own_answer() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    ops = (QuotaOp(FETCH, 1.0), QuotaOp(PRODUCE, None), QuotaOp(PERCENT, None))
    answers = await preview(
        broker.views, (QuotaAlteration(ALICE, ops),), await connected_clients(broker.views)
    )
    assert [(one.key, one.clients) for one in answers] == [(FETCH, 1), (PRODUCE, 1), (PERCENT, 0)]


async def test_the_work_is_bounded_and_others_have_a_turn_after_each_client(
    polls: Polls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    broker = broker_with(*(("alice", f"app {index}") for index in range(MAX_CLIENTS + 5)))
    polls.since()
    answer = await reach(broker, ALICE, 10.0)
    assert (answer.clients, answer.unlisted) == (MAX_CLIENTS, 5) and polls.since() >= MAX_CLIENTS


async def test_clients_of_all_gateways_are_counted_once() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    idle = replace(usage("alice", "gone"), connections=0)
    broker.remote_shares.client_rows = [
        replace(usage("alice", "app", 6.0), gateways=("1-a",)),
        replace(usage("alice", "app", 1.0), gateways=("2-b",)),
        replace(usage("alice", "far", 4.0), gateways=("2-b",)),
        replace(idle, gateways=("2-b",)),
    ]
    broker.usage_rows = [usage("alice", "app", 3.0), usage("bob", "app", 1.0)]
    broker.unlisted_client_count, broker.without_report = 7, ["3-c"]
    assert await reach(broker, APP, 10.0) == Reach(
        PRODUCE, clients=2, over=2, unlisted=7, without_report=("3-c",)
    )
    assert await reach(broker, ALICE, 14.0) == Reach(PRODUCE, clients=2, unlisted=7, without_report=("3-c",))
    assert await reach(broker, ALICE, 13.0) == Reach(
        PRODUCE, clients=2, over=2, unlisted=7, without_report=("3-c",)
    )


@pytest.mark.parametrize(("here", "elsewhere", "unlisted"), [(1_999, 1, 0), (2_000, 0, 0), (2_000, 1, 1)])
async def test_clients_beyond_the_limit_are_reported(here: int, elsewhere: int, unlisted: int) -> None:
    broker = broker_with(*(("alice", f"app {index}") for index in range(here)))
    broker.remote_shares.client_rows = [usage("alice", f"far {index}") for index in range(elsewhere)]
    connected = await connected_clients(broker.views)
    assert (len(connected.clients), connected.unlisted) == (min(MAX_CLIENTS, here + elsewhere), unlisted)


@pytest.mark.parametrize(
    ("key", "figure"),
    [(PRODUCE, "bytes_in_per_s"), (FETCH, "bytes_out_per_s"), (PERCENT, "request_percentage")],
)
@pytest.mark.parametrize(("each", "over"), [(4.9, 0), (5.0, 0), (5.1, 2)])
async def test_clients_that_would_share_a_limit_are_over_it_together(
    key: str, figure: str, each: float, over: int
) -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"), ("bob", "app"))
    rows = (usage("alice", "app"), usage("alice", "other"), usage("bob", "app"))
    broker.usage_rows = [replace(row, **{figure: each}) for row in rows]  # type: ignore[arg-type]
    assert await reach(broker, ALICE, 10.0, key) == Reach(key, clients=2, over=over)
    # A default is a limit for each name that it stands for.
    assert await reach(broker, DEFAULT_USER, 10.0, key) == Reach(key, clients=3, over=over)


async def test_mutations_are_known_only_where_a_limit_measures_them() -> None:
    broker = broker_with(("alice", "app"))
    broker.usage_rows = [usage("alice", "app", 100.0)]
    assert await reach(broker, ALICE, 10.0, MUTATIONS) == Reach(MUTATIONS, clients=1, unmeasured=1)
    broker.set(ALICE, {MUTATIONS: 5.0})
    broker.observed = {ALICE: {MUTATIONS: 11.0}}
    assert await reach(broker, ALICE, 10.0, MUTATIONS) == Reach(MUTATIONS, clients=1, over=1)


@pytest.mark.parametrize(
    ("entity", "clients"),
    [
        ((("user", "alice"), ("client-id", None)), 2),
        ((("user", None), ("client-id", "app")), 2),
        ((("user", None), ("client-id", None)), 3),
        ((("user", None),), 3),
        ((("client-id", None),), 3),
        ((("client-id", None), ("user", "alice")), 2),
    ],
)
async def test_defaults_apply_to_the_clients_without_a_rule_of_their_own(
    entity: EntityPairs, clients: int
) -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"), ("bob", "app"))
    assert (await reach(broker, entity, 1.0)).clients == clients


async def test_a_removal_names_the_clients_over_the_next_limit() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    broker.set(DEFAULT_USER, {PRODUCE: 50.0})
    broker.set(APP, {PRODUCE: 7.0})
    broker.usage_rows = [usage("alice", "app", 4.0), usage("bob", "app", 4.0)]
    removal = await whole_reach(broker, DEFAULT_USER, None)
    assert (counts(removal), targets(removal)) == (Reach(PRODUCE, clients=2, over=2), {7.0: 2})


async def test_an_edit_of_the_mark_is_about_all_limits_that_it_moves() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0, FETCH: 5.0})
    broker.observed = {ALICE: {PRODUCE: 6.0, FETCH: 2.0}}
    into = QuotaAlteration(ALICE, (QuotaOp(FETCH, 1.0),), shadow=True)
    assert [
        counts(each) for each in await preview(broker.views, (into,), await connected_clients(broker.views))
    ] == [
        Reach(FETCH, clients=1, over=1, shadow=True),
        Reach(PRODUCE, clients=1, over=1, shadow=True),
    ]
    broker.set(ALICE, {}, shadow=True)
    out = QuotaAlteration(ALICE, (), shadow=False)
    assert [
        counts(each) for each in await preview(broker.views, (out,), await connected_clients(broker.views))
    ] == [
        Reach(PRODUCE, clients=1, over=1),
        Reach(FETCH, clients=1),
    ]
    assert (await reach(broker, ALICE, 7.0)).shadow


async def test_several_removals_stand_together() -> None:
    broker = broker_with(("alice", "app"), ("alice", "other"), ("bob", "app"), ("carol", "third"))
    broker.set(ALICE, {PRODUCE: 5.0, FETCH: 6.0})
    broker.set(APP, {PRODUCE: 7.0})
    broker.set(DEFAULT_USER, {PRODUCE: 9.0})
    removals = [
        QuotaAlteration(ALICE, (QuotaOp(PRODUCE, None), QuotaOp(FETCH, None))),
        QuotaAlteration(APP, (QuotaOp(PRODUCE, None),)),
    ]
    # Alone, the first leaves alice to the default.
    alone = await preview(broker.views, removals[:1], await connected_clients(broker.views))
    assert [(each.key, each.clients, targets(each)) for each in alone] == [
        (PRODUCE, 2, {9.0: 2}),
        (FETCH, 2, {None: 2}),
    ]
    removals.append(QuotaAlteration(DEFAULT_USER, (QuotaOp(PRODUCE, None),)))
    together = await preview(broker.views, removals, await connected_clients(broker.views))
    assert [(each.key, each.clients, targets(each)) for each in together] == [
        (PRODUCE, 4, {None: 4}),
        (FETCH, 2, {None: 2}),
    ]


async def test_a_rule_that_takes_clients_from_others_says_from_which_limit_to_which() -> None:
    broker = broker_with(("ANONYMOUS", "greedy"), ("ANONYMOUS", "patient"), ("ANONYMOUS", "polite"))
    greedy: EntityPairs = (("client-id", "greedy"),)
    patient: EntityPairs = (("client-id", "patient"),)
    broker.set(greedy, {PRODUCE: 1e6})
    broker.set(patient, {PRODUCE: 5e5})
    broker.observed = {greedy: {PRODUCE: 9e5}, patient: {PRODUCE: 4.4e5}}
    found = await whole_reach(broker, DEFAULT_USER, 3e6)
    assert (found.counted, found.clients, found.over) == (3, 3, 0)
    after = LimitingRule(DEFAULT_USER, 3e6)
    assert found.moves == {
        (LimitingRule(greedy, 1e6), after): MovedClients(1, 1, 1, [ConnectedClient("ANONYMOUS", "greedy")]),
        (LimitingRule(patient, 5e5), after): MovedClients(1, 1, 0, [ConnectedClient("ANONYMOUS", "patient")]),
        (NOTHING, after): MovedClients(1, 1, 0, [ConnectedClient("ANONYMOUS", "polite")]),
    }
    assert found.emptied == [LimitingRule(greedy, 1e6), LimitingRule(patient, 5e5)]


async def test_a_rule_that_keeps_a_client_is_not_left_without_clients() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    broker.set(APP, {PRODUCE: 7.0})
    assert (await whole_reach(broker, ALICE, 5.0)).emptied == []
    assert (await whole_reach(broker, DEFAULT_USER, 5.0)).emptied == [LimitingRule(APP, 7.0)]
    # A removed rule is not told to be left.
    assert (await whole_reach(broker, APP, None)).emptied == []


async def test_clients_that_come_under_one_rule_share_a_limit_for_each_name() -> None:
    broker = broker_with(*((user, f"app {index}") for user in ("alice", "bob") for index in range(2)))
    [(_, shared)] = (await whole_reach(broker, DEFAULT_USER, 5.0)).moves.items()
    assert (shared.clients, shared.limits, len(shared.examples)) == (4, 2, 3)
    each: EntityPairs = (("user", None), ("client-id", None))
    [(_, alone)] = (await whole_reach(broker, each, 5.0)).moves.items()
    assert (alone.clients, alone.limits) == (4, 4)
    broker.set(DEFAULT_USER, {PRODUCE: 5.0})
    [(_, freed)] = (await whole_reach(broker, DEFAULT_USER, None)).moves.items()
    assert (freed.clients, freed.limits) == (4, 0)


async def test_a_present_limit_changes_no_client() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    found = await whole_reach(broker, ALICE, 5.0)
    assert (found.clients, found.moves, found.first_wait) == (1, {}, None)


async def test_the_first_throttle_is_the_longest_and_comes_with_a_gentler_limit() -> None:
    broker = broker_with(("alice", "app"), ("bob", "app"))
    broker.set(ALICE, {PRODUCE: 5e6})
    broker.observed = {ALICE: {PRODUCE: 2.3e6}}
    # As the fake broker computes it: (2.3 - 0.3) / 0.3 * 10 s.
    assert (await whole_reach(broker, ALICE, 3e5)).first_wait == FirstWait(66_667, 2e6, 1_500)
    assert (await whole_reach(broker, ALICE, 2e6)).first_wait == FirstWait(1_500)
    # A rule without a sensor has not measured anything that clients would have to wait for.
    assert (await whole_reach(broker, DEFAULT_USER, 3e5)).first_wait == FirstWait(0)
