"""A kill at every record of __share_group_state, whole or torn, and what a member receives afterwards."""

import shutil
from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.coordinator.share.persister import SHARE_STATE_TOPIC
from broker.records.header import header_at
from tests.api.harness import Harness
from tests.coordinator.share.consumers import Member, acquired_in
from tests.coordinator.share.members import ACCEPT, REJECT, RELEASE

Ranges = list[tuple[int, int, int]]

OVERRIDES = (
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.snapshot.update.records.per.snapshot=3",
)

AFTERWARDS: list[tuple[str, Ranges]] = [
    ("the state is initialized", [(0, 9, 1)]),
    ("a member accepts 0 to 3", [(4, 9, 1)]),
    ("it releases 4 and 5", [(4, 5, 2), (6, 9, 1)]),
    ("it rejects 9", [(4, 5, 2), (6, 8, 1)]),
    ("its lock on 6 to 8 ends", [(4, 8, 2)]),
    ("another member's lock on 4 and 5 ends", [(4, 5, 3), (6, 8, 2)]),
    ("a member acquires 4 to 8 and leaves", [(4, 5, 4), (6, 8, 3)]),
    ("a member accepts 4 to 7", [(8, 8, 3)]),
    ("its lock on 8 ends", [(8, 8, 4)]),
    ("it accepts 8", []),
]
"""For each record of the state topic: what it stores, and the ranges and delivery counts that a member
acquires if the record is the last one on disk. Records 5 and 9 are snapshots.
"""


async def drive(harness: Harness) -> None:
    """Write the records of AFTERWARDS."""
    await harness.create_topic("orders")
    topic_id = harness.partitions.by_name["orders"].topic_id
    await harness.share.persister.initialize("readers", topic_id, 0, 0)
    harness.append("orders", *range(10))
    one, two = Member(harness, "a"), Member(harness, "b")
    assert await one.acquired() == [(0, 9, 1)]
    assert await one.acknowledged((0, 3, [ACCEPT])) == 0
    assert await one.acknowledged((4, 5, [RELEASE])) == 0
    harness.advance(1_000)
    assert await two.acquired() == [(4, 5, 2)]
    assert await one.acknowledged((9, 9, [REJECT])) == 0
    harness.advance(29_000)
    harness.advance(1_000)
    assert await two.acquired() == [(4, 5, 3), (6, 8, 2)]
    await two.close()
    three = Member(harness, "c")
    assert await three.acquired() == [(4, 5, 4), (6, 8, 3)]
    assert await three.acknowledged((4, 7, [ACCEPT])) == 0
    harness.advance(30_000)
    assert await three.acquired() == [(8, 8, 4)]
    assert await three.acknowledged((8, 8, [ACCEPT])) == 0


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """The files of a broker that was killed after the last record."""
    directory = tmp_path / "log"
    harness = Harness(directory, *OVERRIDES)
    await drive(harness)
    copy = tmp_path / "killed"
    shutil.copytree(directory, copy)
    harness.close()
    return copy


def ends_of(path: Path) -> list[int]:
    """Return where each record of a segment ends, in bytes."""
    content = path.read_bytes()
    ends = [0]
    while ends[-1] < len(content):
        ends.append(ends[-1] + header_at(content, ends[-1]).size)
    return ends[1:]


@pytest.mark.parametrize("torn", [False, True])
async def test_a_member_receives_what_is_not_done_after_a_kill(killed: Path, torn: bool) -> None:
    segment = f"{SHARE_STATE_TOPIC}-0/{0:020}.log"
    ends = ends_of(killed / segment)
    assert len(ends) == len(AFTERWARDS)
    for number, (what, expected) in enumerate(AFTERWARDS):
        copy = killed.with_name(f"{number}")
        shutil.copytree(killed, copy)
        with (copy / segment).open("r+b") as file:
            end = ends[number]
            if torn and number + 1 < len(ends):
                end += (ends[number + 1] - end) // 2
            file.truncate(end)
        harness = Harness(copy, *OVERRIDES)
        assert acquired_in(await Member(harness).fetch()) == expected, what
        harness.close()
        shutil.rmtree(copy)


async def test_without_its_first_record_a_state_is_not_initialized(killed: Path) -> None:
    with (killed / f"{SHARE_STATE_TOPIC}-0" / f"{0:020}.log").open("r+b") as file:
        file.truncate(10)
    harness = Harness(killed, *OVERRIDES)
    reply = await Member(harness).fetch()
    assert reply.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    harness.close()
