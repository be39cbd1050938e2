"""The command that does the same as an edit, and the clients that an edit would affect."""

import shlex

import pytest
from msgspec.structs import replace

from broker.control.commands import EntityPairs, QuotaAlteration, QuotaOp
from tests.webui.fake_resolving import usage
from tests.webui.fakes import FakeBroker
from tests.webui.polls import Polls
from tests.webui.rows import connection
from webui.quotas import MAX_CLIENTS, Reach, connected_clients, kafka_configs, plain, preview, shell_command
from webui.tables import slices

PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, MUTATIONS = "request_percentage", "controller_mutation_rate"
ALICE: EntityPairs = (("user", "alice"),)
ALICE_APP: EntityPairs = (("user", "alice"), ("client-id", "app"))
DEFAULT_USER: EntityPairs = (("user", None),)
APP: EntityPairs = (("client-id", "app"),)


def broker_with(*clients: tuple[str, str]) -> FakeBroker:
    rows = [connection(client_id, user, index) for index, (user, client_id) in enumerate(clients)]
    return FakeBroker(connection_rows=rows)


async def reach(broker: FakeBroker, entity: EntityPairs, value: float | None, key: str = PRODUCE) -> Reach:
    edit = QuotaAlteration(entity, (QuotaOp(key, value),))
    [answer] = await preview(broker, (edit,), await connected_clients(broker))
    return answer


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
    assert await reach(broker, ALICE, None) == Reach(PRODUCE, clients=2, new_bounds={7.0: 1, None: 1})
    assert await reach(broker, APP, None) == Reach(
        PRODUCE, clients=1, new_bounds={None: 1}, outranked={ALICE: 1}
    )


async def test_removing_a_missing_limit_affects_no_client() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {FETCH: 5.0})
    assert await reach(broker, ALICE, None) == Reach(PRODUCE)


async def test_every_op_has_its_own_answer() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0})
    ops = (QuotaOp(FETCH, 1.0), QuotaOp(PRODUCE, None), QuotaOp(PERCENT, None))
    answers = await preview(broker, (QuotaAlteration(ALICE, ops),), await connected_clients(broker))
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
    broker.others_elsewhere.client_rows = [
        replace(usage("alice", "app", 6.0), gateways=("1-a",)),
        replace(usage("alice", "app", 1.0), gateways=("2-b",)),
        replace(usage("alice", "far", 4.0), gateways=("2-b",)),
        replace(idle, gateways=("2-b",)),
    ]
    broker.usage_rows = [usage("alice", "app", 3.0), usage("bob", "app", 1.0)]
    broker.unlisted_client_count, broker.unheard = 7, ["3-c"]
    assert await reach(broker, APP, 10.0) == Reach(PRODUCE, clients=2, over=2, unlisted=7, unheard=("3-c",))
    assert await reach(broker, ALICE, 14.0) == Reach(PRODUCE, clients=2, unlisted=7, unheard=("3-c",))
    assert await reach(broker, ALICE, 13.0) == Reach(PRODUCE, clients=2, over=2, unlisted=7, unheard=("3-c",))


@pytest.mark.parametrize(("here", "elsewhere", "unlisted"), [(1_999, 1, 0), (2_000, 0, 0), (2_000, 1, 1)])
async def test_clients_beyond_the_limit_are_told(here: int, elsewhere: int, unlisted: int) -> None:
    broker = broker_with(*(("alice", f"app {index}") for index in range(here)))
    broker.others_elsewhere.client_rows = [usage("alice", f"far {index}") for index in range(elsewhere)]
    connected = await connected_clients(broker)
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
    removed = Reach(PRODUCE, clients=2, new_bounds={7.0: 2}, over=2)
    assert await reach(broker, DEFAULT_USER, None) == removed


async def test_an_edit_of_the_mark_is_about_all_limits_that_it_moves() -> None:
    broker = broker_with(("alice", "app"))
    broker.set(ALICE, {PRODUCE: 5.0, FETCH: 5.0})
    broker.observed = {ALICE: {PRODUCE: 6.0, FETCH: 2.0}}
    into = QuotaAlteration(ALICE, (QuotaOp(FETCH, 1.0),), shadow=True)
    assert await preview(broker, (into,), await connected_clients(broker)) == [
        Reach(FETCH, clients=1, over=1, shadow=True),
        Reach(PRODUCE, clients=1, over=1, shadow=True),
    ]
    broker.set(ALICE, {}, shadow=True)
    out = QuotaAlteration(ALICE, (), shadow=False)
    assert await preview(broker, (out,), await connected_clients(broker)) == [
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
    assert await preview(broker, removals[:1], await connected_clients(broker)) == [
        Reach(PRODUCE, clients=2, new_bounds={9.0: 2}),
        Reach(FETCH, clients=2, new_bounds={None: 2}),
    ]
    removals.append(QuotaAlteration(DEFAULT_USER, (QuotaOp(PRODUCE, None),)))
    assert await preview(broker, removals, await connected_clients(broker)) == [
        Reach(PRODUCE, clients=4, new_bounds={None: 4}),
        Reach(FETCH, clients=2, new_bounds={None: 2}),
    ]


SET = QuotaOp("producer_byte_rate", 1_048_576)
START = "kafka-configs.sh --bootstrap-server h:9092 --alter"


@pytest.mark.parametrize(
    ("entity", "rest"),
    [
        ((("user", "alice"),), "--entity-type users --entity-name alice"),
        ((("client-id", None),), "--entity-type clients --entity-default"),
        (
            (("user", None), ("client-id", "app")),
            "--entity-type users --entity-default --entity-type clients --entity-name app",
        ),
        ((("ip", "10.0.0.7"),), "--entity-type ips --entity-name 10.0.0.7"),
    ],
)
def test_the_entity_is_named_as_kafkas_tool_wants_it(entity: EntityPairs, rest: str) -> None:
    assert kafka_configs("h:9092", entity, [SET]) == f"{START} --add-config producer_byte_rate=1048576 {rest}"


@pytest.mark.parametrize(
    ("ops", "rest"),
    [
        (
            [SET, QuotaOp("request_percentage", 12.5)],
            "--add-config producer_byte_rate=1048576,request_percentage=12.5",
        ),
        ([QuotaOp("consumer_byte_rate", None)], "--delete-config consumer_byte_rate"),
        (
            [SET, QuotaOp("consumer_byte_rate", None), QuotaOp("request_percentage", None)],
            "--add-config producer_byte_rate=1048576 --delete-config consumer_byte_rate,request_percentage",
        ),
    ],
)
def test_limits_are_set_and_removed_in_one_command(ops: list[QuotaOp], rest: str) -> None:
    command = kafka_configs("h:9092", (("user", "a"),), ops)
    assert command == f"{START} {rest} --entity-type users --entity-name a"


def test_nothing_to_do_is_no_command() -> None:
    assert kafka_configs("h:9092", (("user", "a"),), []) == ""


@pytest.mark.parametrize(
    "name", ["user with spaces", "it's", "$(reboot)", "`id`; rm -rf /", "-x", "a\nb", "<default>", "\\", ""]
)
def test_any_client_id_stays_one_word_of_the_shell(name: str) -> None:
    words = shlex.split(kafka_configs("h:9092", (("client-id", name),), [SET]))
    assert words[-2:] == ["--entity-name", name]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (1e15, "1000000000000000"),
        (0.5, "0.5"),
        (50.55, "50.55"),
        (1e-7, "0.0000001"),
        (2.0**62, "4611686018427387904"),
    ],
)
def test_values_have_no_exponent_and_no_needless_fraction(value: float, text: str) -> None:
    assert plain(value) == text


def test_settings_unknown_to_kafka_get_a_command_of_the_brokers_own_tool() -> None:
    entity: EntityPairs = (("user", "al ice"), ("client-id", None))
    limit = QuotaOp("producer_byte_rate", 5.0)
    kafka = (
        "kafka-configs.sh --bootstrap-server b:1 --alter --add-config producer_byte_rate=5 "
        "--entity-type users --entity-name 'al ice' --entity-type clients --entity-default"
    )
    weir = "weir quotas set --user 'al ice' --client-id-default"
    assert shell_command("b:1", QuotaAlteration(entity, (limit,))) == kafka
    assert shell_command("b:1", QuotaAlteration(entity, (), shadow=True)) == f"{weir} --shadow"
    both = QuotaAlteration(entity, (limit,), shadow=False)
    assert shell_command("b:1", both) == f"{kafka} && {weir} --enforce"
