"""Damage to the logs of groups, transactions and share groups: what they held is served, or its loss is told.

The files are those of any partition (`tests.log.test_damaged_files`); these tests load the coordinators.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from broker.log.recovery import Recovery
from broker.log.store import LogStore
from broker.protocol.messages.list_transactions import ListTransactionsRequest
from tests.api.group import commit_request, committed, find_coordinator
from tests.api.harness import Harness
from tests.api.transacting import TransactionalProducer, visible

MEMBERS: Final = 6
TOPICS: Final = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class World(NamedTuple):
    """What a client can ask the coordinators of."""

    offsets: list[int]
    transactional_ids: list[str]
    share_starts: list[int | None]
    values: list[bytes]


@pytest.fixture
async def directories(tmp_path: Path) -> dict[str, Path]:
    """Log directories after a stop, by how it stopped."""
    where = tmp_path / "clean"
    harness = Harness(where)
    for name in ("events", "orders"):
        await harness.create_topic(name, 1)
    await find_coordinator(harness)
    producer = await TransactionalProducer(harness).begin()
    for number in range(4):
        await producer.write(b"%d" % number)
        await producer.end(commit=number % 2 == 0)
    topic_id = harness.control.image.topics["events"].topic_id
    for number in range(MEMBERS):
        request = commit_request(10 + number, group=f"g{number}")
        (topic,) = (await harness.ask(request)).topics
        assert topic.partitions[0].error_code == 0
        await TransactionalProducer(harness, f"t{number}").begin()
        await harness.share.persister.initialize(f"s{number}", topic_id, 0, 20 + number)
    shutil.copytree(where, tmp_path / "killed")
    harness.close()
    return {"clean": where, "killed": tmp_path / "killed"}


async def world_of(harness: Harness) -> World:
    topic_id = harness.control.image.topics["events"].topic_id
    summaries = [harness.share.persister.summary(f"s{number}", topic_id, 0) for number in range(MEMBERS)]
    listed = (await harness.ask(ListTransactionsRequest())).transaction_states
    return World(
        [await committed(harness, group=f"g{number}") for number in range(MEMBERS)],
        sorted(each.transactional_id for each in listed),
        [None if each is None else each.start_offset for each in summaries],
        await visible(harness),
    )


EXPECTED: Final = World(
    [10 + number for number in range(MEMBERS)],
    sorted(["t", *(f"t{number}" for number in range(MEMBERS))]),
    [20 + number for number in range(MEMBERS)],
    [b"0", b"2"],
)


def flip(at: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(int(at * len(content)), len(content) - 1)] ^= 0x10
        path.write_bytes(content)

    return damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def become_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGE: Final[dict[str, Callable[[Path], object]]] = {
    "first bit": flip(0),
    "bit in the middle": flip(0.5),
    "last bit": flip(1),
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
    "garbage behind": lambda path: path.write_bytes(path.read_bytes() + bytes(range(7, 107))),
    "a directory": become_a_directory,
}


@pytest.mark.rotates
@pytest.mark.parametrize("stop", ["clean", "killed"])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("topic", TOPICS)
async def test_damage_to_the_log_of_a_coordinator_is_harmless_or_reported(
    directories: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    topic: str,
    damage: str,
    stop: str,
) -> None:
    where = directories[stop]
    logs = [each for each in where.glob(f"{topic}-*/*.log") if each.stat().st_size]
    DAMAGE[damage](max(logs, key=lambda each: each.stat().st_size))
    reports: list[Recovery] = []
    open_logs = LogStore.open

    def opened(store: LogStore) -> Recovery:
        reports.append(open_logs(store))
        return reports[-1]

    monkeypatch.setattr(LogStore, "open", opened)
    harness = Harness(where)
    (report,) = reports
    is_reported = bool(
        report.damage or report.missing or report.truncated or report.unreadable or caplog.records
    )
    try:
        found = await world_of(harness)
    except AssertionError:
        assert report.unreadable  # the coordinators answer with an error
    else:
        for one, other in zip(found, EXPECTED, strict=True):
            if one != other:
                # After a kill, what was not flushed may be gone, as after a power failure.
                assert is_reported or report.unclean
                assert all(each in (*other, -1, None) for each in one)
    finally:
        harness.close()


@pytest.mark.parametrize("stop", ["clean", "killed"])
async def test_what_was_written_is_there(directories: dict[str, Path], stop: str) -> None:
    harness = Harness(directories[stop])
    assert await world_of(harness) == EXPECTED
    harness.close()
