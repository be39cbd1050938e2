"""The rule that applies to a client, its current use, and the result under other rules. A higher limit to
begin with, if the wanted one would throttle for long at first.
"""

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.controller.commands import EntityPairs, QuotaAlteration, QuotaOp
from broker.controller.control import Control
from broker.controller.rows.quotas import FirstWait, MeasuredBy, NodeUse, ResolvedLimit
from broker.views.console import Views
from broker.views.resolving import GENTLE_MS, first_wait, round_up
from tests.controller.live import Live, client, store

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"
ALICE: EntityPairs = (("user", "alice"),)
BOTH: EntityPairs = (("user", "alice"), ("client-id", "app"))
DEFAULT_USER: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)
ANY_APP: EntityPairs = (("client-id", None),)

QUOTA, CONNECTIONS = MeasuredBy.QUOTA, MeasuredBy.CONNECTIONS
State = tuple[EntityPairs | None, float | None, float | None, MeasuredBy | None, bool, int | None]


def edit(entity: EntityPairs, shadow: bool | None = None, **limits: float | None) -> QuotaAlteration:
    return QuotaAlteration(entity, tuple(QuotaOp(*op) for op in limits.items()), shadow=shadow)


def state(limit: ResolvedLimit) -> State:
    return (limit.matched, limit.bound, limit.observed, limit.measured_by, limit.shadow, limit.wait_ms)


def resolved(
    views: Views, key: str, *edits: QuotaAlteration, user: str = "alice", client_id: str = "app"
) -> tuple[State, State]:
    found = {
        now.key: (now, then)
        for now, then in run_through(views.quotas.resolve(user, client_id, changes=edits))
    }
    now, then = found[key]
    return state(now), state(then)


async def test_the_probes_are_the_eight_levels_and_the_first_rule_wins(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0), (APP, PRODUCE, 20.0), (ANY_APP, FETCH, 30.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 7.0
    found = {now.key: now for now, _ in run_through(views.quotas.resolve("alice", "app"))}
    assert list(found) == [PRODUCE, FETCH, PERCENT, MUTATIONS]
    produce = found[PRODUCE]
    assert [probe.entity for probe in produce.probes] == [
        BOTH,
        (("user", "alice"), ("client-id", None)),
        ALICE,
        (("user", None), ("client-id", "app")),
        (("user", None), ("client-id", None)),
        DEFAULT_USER,
        APP,
        ANY_APP,
    ]
    assert [probe.value for probe in produce.probes] == [None, None, 10.0, None, None, None, 20.0, None]
    assert [probe.matched for probe in produce.probes] == [False, False, True, *[False] * 5]
    assert state(produce) == (ALICE, 10.0, 7.0, QUOTA, False, 0)
    assert state(found[FETCH]) == (ANY_APP, 30.0, None, None, False, None)
    assert state(found[PERCENT]) == (None, None, None, None, False, None)


async def test_a_connection_that_has_not_logged_in_is_the_user_anonymous(
    control: Control, views: Views
) -> None:
    await store(control, ((("user", "ANONYMOUS"),), PRODUCE, 10.0))
    assert run_through(views.quotas.resolve(None, None))[0][0].bound == 10.0


@pytest.mark.parametrize(("observed", "wait_ms"), [(9.9, 0), (10.0, 0), (11.0, 1_000), (20.0, 10_000)])
async def test_the_wait_is_that_of_its_present_rate(
    control: Control, views: Views, live: Live, observed: float, wait_ms: int
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    live.sensors[PRODUCE, "alice", "app", ""] = observed
    now, then = resolved(views, PRODUCE)
    assert now == then == (ALICE, 10.0, observed, QUOTA, False, wait_ms)


async def test_a_user_that_is_not_limited_does_what_its_connections_say(views: Views, live: Live) -> None:
    live.clients = [client("alice", "app", 5.0, 6.0), client("alice", "other", 50.0, 60.0)]
    assert resolved(views, PRODUCE)[0] == (None, None, 5.0, CONNECTIONS, False, None)
    assert resolved(views, FETCH)[0] == (None, None, 6.0, CONNECTIONS, False, None)
    assert resolved(views, PERCENT)[0] == (None, None, None, None, False, None)
    assert resolved(views, MUTATIONS)[0] == (None, None, None, None, False, None)


async def test_a_proposed_rule_counts_all_users_that_it_would_govern_together(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, ((("user", "alice"), ("client-id", "vip")), PRODUCE, 1_000.0))
    live.clients = [
        client("alice", "app", 6.0),
        client("alice", "other", 5.0),
        client("alice", "vip", 100.0),
        client("bob", "app", 1_000.0),
    ]
    together = edit(ALICE, producer_byte_rate=10.0)
    assert resolved(views, PRODUCE, together)[1] == (ALICE, 10.0, 11.0, CONNECTIONS, False, 1_000)
    each = edit((("user", None), ("client-id", None)), producer_byte_rate=10.0)
    of_each = ((("user", None), ("client-id", None)), 10.0, 6.0, CONNECTIONS, False, 0)
    assert resolved(views, PRODUCE, each)[1] == of_each
    apps = edit(APP, producer_byte_rate=10.0)
    assert resolved(views, PRODUCE, apps)[1] == (APP, 10.0, 1_006.0, CONNECTIONS, False, 996_000)


async def test_a_changed_limit_is_judged_by_the_sensor_that_is_there(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 9.0
    live.clients = [client("alice", "app", 99.0)]
    now, then = resolved(views, PRODUCE, edit(ALICE, producer_byte_rate=6.0))
    assert now == (ALICE, 10.0, 9.0, QUOTA, False, 0)
    assert then == (ALICE, 6.0, 9.0, QUOTA, False, 5_000)


async def test_a_rule_that_goes_first_has_a_sensor_of_its_own(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 9.0
    live.clients = [client("alice", "app", 3.0), client("alice", "other", 6.0)]
    now, then = resolved(views, PRODUCE, edit(BOTH, producer_byte_rate=2.0))
    assert (now[0], now[2]) == (ALICE, 9.0)
    assert then == (BOTH, 2.0, 3.0, CONNECTIONS, False, 5_000)


async def test_a_rule_that_takes_others_away_leaves_the_rest_under_the_limit(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 21.0
    live.clients = [client("alice", "app", 2.0), client("alice", "vip", 18.0)]
    vip = edit((("user", "alice"), ("client-id", "vip")), producer_byte_rate=100.0)
    now, then = resolved(views, PRODUCE, vip)
    assert now == (ALICE, 10.0, 21.0, QUOTA, False, 11_000)
    assert then == (ALICE, 10.0, 2.0, CONNECTIONS, False, 0)


async def test_a_removed_limit_uncovers_the_one_behind_it(control: Control, views: Views, live: Live) -> None:
    await store(control, (ALICE, PRODUCE, 10.0), (ANY_APP, PRODUCE, 4.0))
    live.clients = [client("alice", "app", 8.0)]
    _, then = resolved(views, PRODUCE, edit(ALICE, producer_byte_rate=None))
    assert then == (ANY_APP, 4.0, 8.0, CONNECTIONS, False, 10_000)
    _, nothing = resolved(
        views, PRODUCE, edit(ALICE, producer_byte_rate=None), edit(ANY_APP, producer_byte_rate=None)
    )
    assert nothing == (None, None, 8.0, CONNECTIONS, False, None)
    _, other_key = resolved(views, FETCH, edit(ALICE, producer_byte_rate=None))
    assert other_key[0] is None


async def test_a_rule_that_only_goes_into_shadow_matches_as_before(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0), (ANY_APP, PRODUCE, 1.0))
    live.sensors[PRODUCE, "alice", "app", ""] = 20.0
    now, then = resolved(views, PRODUCE, edit(ALICE, True))
    assert now == (ALICE, 10.0, 20.0, QUOTA, False, 10_000)
    assert then == (ALICE, 10.0, 20.0, QUOTA, True, 10_000)
    (limit, limit_then), *_ = run_through(views.quotas.resolve("alice", "app", changes=[edit(ALICE, True)]))
    assert not any(probe.shadow for probe in limit.probes)
    assert [probe.shadow for probe in limit_then.probes] == [False, False, True, *[False] * 5]


async def test_request_time_is_known_while_requests_are_timed(views: Views, live: Live) -> None:
    live.clients = [client("alice", "app", percent=30.0), client("alice", "other", percent=3.0)]
    _, then = resolved(views, PERCENT, edit(ALICE, request_percentage=30.0))
    assert then == (ALICE, 30.0, 33.0, CONNECTIONS, False, 1_000)


async def test_the_limit_of_an_address_is_looked_for_where_one_is_given(
    control: Control, views: Views, live: Live
) -> None:
    key, address = "connection_creation_rate", "10.0.0.7"
    await store(control, ((("ip", None),), key, 5.0))
    live.sensors[key, "alice", "app", address] = 6.0
    change = edit((("ip", address),), connection_creation_rate=3.0)
    now, then = run_through(views.quotas.resolve("alice", "app", address, [change]))[-1]
    assert [probe.entity for probe in now.probes] == [(("ip", address),), (("ip", None),)]
    assert state(now) == ((("ip", None),), 5.0, 6.0, QUOTA, False, 2_000)
    assert (then.matched, then.bound) == ((("ip", address),), 3.0)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([edit(ALICE, producer_byte_rate=1.5)], "fractional"),
        ([edit(ALICE, nonsense=1.0)], "Invalid configuration key nonsense"),
        ([edit(ALICE, producer_byte_rate=1.0), edit(ALICE, consumer_byte_rate=1.0)], "duplicate entity"),
        ([edit(ALICE, True)], "user alice has no limit"),
        ([edit((("user", ""),), producer_byte_rate=1.0)], "Empty user"),
    ],
)
async def test_edits_that_would_be_refused_are_refused_here(
    views: Views, edits: list[QuotaAlteration], words: str
) -> None:
    with pytest.raises(ApiError, match=words) as refused:
        run_through(views.quotas.resolve("alice", "app", changes=edits))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


async def test_many_clients_are_resolved_with_the_use_gathered_once(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    live.clients = [client("alice", "app", 7.0), client("bob", "app", 3.0)]
    answers = list(views.quotas.resolve_all([("alice", "app"), ("bob", "app")], [PRODUCE]))
    assert [[state(now) for now, _ in answer] for answer in answers if answer is not None] == [
        [(ALICE, 10.0, 7.0, CONNECTIONS, False, 0)],
        [(None, None, 3.0, CONNECTIONS, False, None)],
    ]
    assert live.resolve_calls == 1


async def test_the_use_at_each_node_is_reported_where_the_sensors_measured_it(
    control: Control, views: Views, live: Live
) -> None:
    await store(control, (ALICE, PRODUCE, 10.0))
    uses = (NodeUse(1, 5.0, 0), NodeUse(2, 12.0, 2_000))
    live.at_nodes[PRODUCE] = uses
    live.clients = [client("alice", "app", bytes_in=17.0)]

    def nodes() -> tuple[NodeUse, ...]:
        (found,) = [now for now, _ in run_through(views.quotas.resolve("alice", "app")) if now.key == PRODUCE]
        return found.nodes

    assert nodes() == ()
    live.sensors[PRODUCE, "alice", "app", ""] = 12.0
    assert nodes() == uses


def window_wait_ms(observed: float, bound: float) -> int:
    """As the quotas compute it over ten seconds."""
    return max(round((observed - bound) / bound * 10_000), 0)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (6.0, FirstWait(0)),
        (5.0, FirstWait(GENTLE_MS)),
        (4.999, FirstWait(2_002, 5.0, 2_000)),
        (0.6, FirstWait(90_000, 5.0, 2_000)),
        (0.0007, FirstWait(85_704_286, 5.0, 2_000)),
    ],
)
def test_a_long_first_throttle_has_a_gentler_limit(bound: float, expected: FirstWait) -> None:
    assert first_wait(lambda limit: window_wait_ms(6.0, limit), bound) == expected


def test_a_debt_is_repaid_faster_at_a_higher_limit() -> None:
    assert first_wait(lambda limit: round(20e6 / limit * 1_000), 1e6) == FirstWait(20_000, 1e7, 2_000)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(1.0, 1.0), (1.01, 1.1), (19_167.0, 20_000.0), (1_916_667.0, 2_000_000.0), (0.123, 0.13), (99.5, 100.0)],
)
def test_limits_are_rounded_up_to_two_digits(limit: float, expected: float) -> None:
    assert round_up(limit) == expected
