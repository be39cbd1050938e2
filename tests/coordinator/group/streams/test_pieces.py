"""Large streams groups: no piece of a change holds the thread for long, and nobody sees half of one."""

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.streams_groups import StreamsGroupConfig
from broker.coordinator.group.groups import SMALL
from broker.coordinator.group.messages import Endpoint
from broker.coordinator.group.streams.assignor import NOTHING
from broker.coordinator.group.streams.topology import Subtopology, TopicInfo, Topology
from tests.coordinator.group.conversation import Ask
from tests.coordinator.group.streams.streamers import DELAY_MS, SESSION_MS, Streamers, Thread, settle
from tests.coordinator.group.test_isolation import each_step_is_a_slice, expiring, lines_of_longest_piece

MANY = 1_000
NAMES = tuple(f"topic-{number:04}" for number in range(MANY))
CHANGELOGS = tuple(f"app-{number:04}-changelog" for number in range(MANY))

WIDE = Topology(0, (Subtopology("0", NAMES, (), tuple(map(TopicInfo, CHANGELOGS))),))
"""One subtopology that reads all topics."""

DEEP = Topology(
    0,
    tuple(
        Subtopology(f"{number:04}", (name,), (), (TopicInfo(changelog),))
        for number, (name, changelog) in enumerate(zip(NAMES, CHANGELOGS, strict=True))
    ),
)
"""A subtopology for each topic."""

FLAT = Topology(0, tuple(Subtopology(f"{number:04}", ("t",)) for number in range(MANY)))
"""Many subtopologies that read one topic."""

BROAD = Topology(0, FLAT.subtopologies[:100])
"""Subtopologies that read one topic, which has many partitions."""

EMPTY = Topology(0, tuple(Subtopology(f"{number:04}") for number in range(3 * MANY)))
"""Subtopologies without topics, which is refused."""

PIECE_LINES = 4 * MANY
"""Lines of Python between two pauses."""

__all__ = ["each_step_is_a_slice"]


def crowded(**streams: int) -> Streamers:
    at_once = {"initial_delay_ms": 0, "assignment_interval_ms": 0}
    talk = Streamers(max_group_bytes=2_097_152, streams=StreamsGroupConfig(**(at_once | streams)))
    talk.set_topics(**dict.fromkeys((*NAMES, *CHANGELOGS), 1))
    return talk


def entering(talk: Streamers, member_id: str, topology: Topology) -> tuple[int, int]:
    """Let a member enter, and return the lines of the longest piece, and the number of pauses."""
    ask, steps = talk.begin(
        member_id,
        0,
        topology=topology,
        rebalance_timeout_ms=60_000,
        owned=Thread(talk, "x").running,
        process_id=f"process-{member_id}",
        endpoint=Endpoint(member_id, 1),
        endpoint_epoch=-1,
    )
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.NONE
    return lines, pauses


@pytest.mark.parametrize("topology", [WIDE, DEEP])
def test_members_of_a_large_application_enter_in_pieces(topology):
    talk = crowded()
    lines, pauses = zip(*(entering(talk, each, topology) for each in "abc"), strict=True)
    assert max(lines) < PIECE_LINES
    assert pauses[0] > 3 * MANY
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.parametrize("topology", [WIDE, DEEP])
def test_members_of_a_large_application_move_their_tasks_in_pieces(topology):
    talk = crowded()
    threads = [Thread(talk, each, topology=topology) for each in "ab"]
    for each in threads:
        each.enter()
        each.act()
    ask, steps = talk.begin("a", threads[0].epoch, owned=threads[0].running, endpoint_epoch=-1)
    lines, _, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert lines < PIECE_LINES
    assert ask.reply.error is ErrorCode.NONE
    settle(*threads)
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.usefixtures("each_step_is_a_slice")
def test_members_of_a_large_application_leave_and_expire_in_pieces():
    talk = crowded()
    for each in "abc":
        entering(talk, each, DEEP)
    ask, steps = talk.begin("a", -1)
    lines, _, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert (ask.reply.error, lines < PIECE_LINES) == (ErrorCode.NONE, True)
    talk.elapsed += SESSION_MS
    lines, _, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert lines < PIECE_LINES
    assert not talk.group().members
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.usefixtures("each_step_is_a_slice")
def test_the_delayed_assignment_of_a_large_application_is_made_in_pieces():
    talk = crowded(initial_delay_ms=DELAY_MS)
    for each in "ab":
        entering(talk, each, DEEP)
    talk.elapsed += DELAY_MS
    lines, pauses, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert lines < PIECE_LINES
    assert pauses > MANY
    assert sorted(len(target.active) for target in talk.group().targets.values()) == [MANY // 2, MANY // 2]


def configured(configs: int, *subtopologies: Subtopology) -> Topology:
    """Return a topology with a subtopology whose changelog has so many configs."""
    changelog = TopicInfo("c", configs=tuple((f"key-{number}", "value") for number in range(configs)))
    return Topology(0, (Subtopology("0", ("t",), (), (changelog,)), *subtopologies))


@pytest.mark.usefixtures("each_step_is_a_slice")
@pytest.mark.parametrize(("topology", "partitions"), [(FLAT, 1), (BROAD, 100)], ids=["flat", "broad"])
def test_subtopologies_of_one_topic_are_divided(topology: Topology, partitions: int) -> None:
    talk = crowded(initial_delay_ms=DELAY_MS)
    talk.set_topics(t=partitions)
    pieces = [entering(talk, "a", topology)[0]]
    talk.elapsed += DELAY_MS
    lines, pauses, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert pauses > len(topology.subtopologies) * partitions
    pieces.append(lines)
    for member_id, enters in (("a", False), ("b", True), ("a", False)):
        if enters:
            pieces.append(entering(talk, member_id, topology)[0])
        ask, steps = talk.begin(member_id, talk.group().members[member_id].epoch, owned=NOTHING)
        lines, pauses, effects = lines_of_longest_piece(steps)
        talk._take(effects)
        assert ask.reply.error is ErrorCode.NONE
        pieces.append(lines)
    talk.elapsed += SESSION_MS
    lines, pauses, effects = lines_of_longest_piece(expiring(talk))
    talk._take(effects)
    assert pauses > 1
    assert not talk.group().members
    assert max(*pieces, lines) < PIECE_LINES


def test_subtopologies_without_topics_are_refused_in_pieces() -> None:
    talk = crowded()
    ask, steps = talk.begin("a", 0, topology=EMPTY, rebalance_timeout_ms=60_000, owned=NOTHING)
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert lines < PIECE_LINES
    assert pauses > len(EMPTY.subtopologies)


def test_the_configs_of_a_changelog_are_stored_in_pieces() -> None:
    talk = crowded()
    talk.set_topics(t=1, c=1)
    lines, pauses = zip(*(entering(talk, each, configured(5 * MANY)) for each in "ab"), strict=True)
    assert max(lines) < PIECE_LINES
    assert pauses[0] > 5 * MANY
    assert talk.reborn().snapshot() == talk.snapshot()


@pytest.mark.usefixtures("each_step_is_a_slice")
def test_tasks_of_a_deleted_topic_are_given_up_in_pieces() -> None:
    talk = crowded()
    talk.set_topics(t=100)
    thread = Thread(talk, "a", topology=BROAD)
    thread.enter()
    thread.act()
    talk.set_topics()
    thread.beat()
    thread.act()
    assert thread.running == NOTHING
    ask, steps = talk.begin("a", thread.epoch, owned=NOTHING)
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert (ask.reply.error, lines < PIECE_LINES) == (ErrorCode.NONE, True)
    assert pauses > len(BROAD.subtopologies)
    assert talk.group().owners.count == 0


@pytest.mark.parametrize(("weight", "waits"), [(SMALL - 1, False), (SMALL, False), (SMALL + 1, True)])
def test_a_topology_of_more_than_a_piece_is_large(weight: int, waits: bool) -> None:
    subtopologies = Topology(0, EMPTY.subtopologies[:weight])
    # One subtopology, the names of its topic and changelog.
    configs = configured(weight - 3)
    for topology in (subtopologies, configs):
        _, steps = crowded().begin("a", 0, topology=topology, rebalance_timeout_ms=60_000, owned=NOTHING)
        assert (sum(1 for _ in steps) > 0) is waits


@pytest.mark.usefixtures("each_step_is_a_slice")
@pytest.mark.parametrize(("weight", "waits"), [(SMALL - 1, False), (SMALL, False), (SMALL + 1, True)])
def test_a_group_is_large_by_its_topology_tasks_and_partitions(weight: int, waits: bool) -> None:
    talk = crowded()
    talk.set_topics(t=10, c=10)
    # A member, two subtopologies, three names, 20 tasks, and 30 partitions of what they read.
    topology = configured(weight - 56, Subtopology("1", ("t",)))
    for group in ("g", "h"):
        assert talk.enter("a", group=group, topology=topology).error is ErrorCode.NONE
    ask, steps = talk.begin("a", -1, "h")
    assert (sum(1 for _ in steps) > 0) is waits
    assert ask.parked
    talk.elapsed += SESSION_MS
    talk._take(talk.coordinator.expire(talk.now))
    assert bool(talk.group().members) is waits


def test_many_members_enter_in_pieces():
    talk = crowded()
    count = 300
    talk.set_topics(**{"t": count, "app-counts-changelog": count})
    for number in range(count - 1):
        talk.enter(f"m{number:03}", f"p{number % 50}")
    ask, steps = talk.begin(
        "last",
        0,
        topology=talk.group().topology.topology,
        rebalance_timeout_ms=60_000,
        owned=Thread(talk, "x").running,
        process_id="p0",
    )
    lines, pauses, effects = lines_of_longest_piece(steps)
    talk._take(effects)
    assert ask.reply.error is ErrorCode.NONE
    assert lines < 10 * count
    assert pauses > 2 * count
    assert {len(target.active["0"]) for target in talk.group().targets.values()} == {1}


def test_a_change_that_is_dropped_has_changed_nothing():
    talk = crowded()
    entering(talk, "a", DEEP)
    before, deadline = talk.snapshot(), talk.coordinator.next_deadline()
    _, steps = talk.begin("a", -1)
    for _ in range(30):
        next(steps)
    steps.close()
    assert talk.snapshot() == before
    assert talk.coordinator.next_deadline() == deadline


def test_a_change_begins_anew_if_the_group_has_changed_meanwhile():
    talk = crowded()
    for each in "ab":
        entering(talk, each, DEEP)
    ask, steps = talk.begin("a", -1)
    for _ in range(30):
        next(steps)
    talk.beat("b", -1)
    assert talk.end(ask, steps).error is ErrorCode.NONE
    assert not talk.group().members
    assert talk.reborn().snapshot() == talk.snapshot()


def told(talk: Streamers) -> dict[str, int]:
    """Return the offset of the first task that each member has told."""
    return {each: restored.offsets["0000"][0] for each, restored in talk.group().task_offsets.items()}


@pytest.mark.parametrize("leaves", [True, False])
def test_what_members_tell_during_a_change_is_kept(leaves: bool) -> None:
    """Their heartbeats have one piece and no records. The change is another member's."""
    talk = crowded()
    threads = [Thread(talk, each, topology=Topology(0, DEEP.subtopologies[:200])) for each in "abc"]
    for number, each in enumerate(threads):
        each.enter(task_offsets={"0000": {0: number}})
    settle(*threads)
    epoch = threads[0].epoch
    stated = {"task_offsets": {"0000": {0: 10}}, "endpoint_epoch": -1}
    ask, steps = talk.begin("a", -1) if leaves else talk.begin("a", epoch, **stated)
    while not talk.coordinator.groups.changing:
        next(steps)
    talk.beat("b", epoch, task_offsets={"0000": {0: 11}})
    talk.beat("c", epoch, shuts_down=True)
    assert talk.last.records == []
    assert talk.end(ask, steps).error is ErrorCode.NONE
    assert told(talk) == {"b": 11, "c": 2} | ({} if leaves else {"a": 10})
    assert talk.group().shutdown_member == "c"


def test_a_member_that_leaves_during_a_change_is_forgotten() -> None:
    talk = crowded()
    threads = [Thread(talk, each, topology=Topology(0, DEEP.subtopologies[:200])) for each in "ab"]
    for each in threads:
        each.enter(task_offsets={"0000": {0: 1}})
    settle(*threads)
    ask, steps = talk.begin("a", -1)
    while not talk.coordinator.groups.changing:
        next(steps)
    talk.beat("a", threads[0].epoch, task_offsets={"0000": {0: 2}})
    talk.beat("b", threads[1].epoch, shuts_down=True)
    assert talk.end(ask, steps).error is ErrorCode.NONE
    assert told(talk) == {"b": 1}
    talk.beat("b", -1)
    assert talk.group().shutdown_member is None


def test_a_large_change_that_cannot_be_written_is_undone():
    talk = crowded()
    entering(talk, "a", DEEP)
    before = talk.snapshot()
    ask = Ask()
    _, steps = talk.begin("a", -1)
    effects = run_through(steps)
    undone = talk.coordinator.roll_back(effects, ErrorCode.KAFKA_STORAGE_ERROR, talk.now)
    assert [reply.error for _, reply in undone.replies] == [ErrorCode.NOT_COORDINATOR]
    assert ask.parked
    assert talk.snapshot() == before
    talk.wait(SESSION_MS)
    assert not talk.group().members
