"""What ShareFetch owes to quotas, to ACLs, and to transactions."""

from pathlib import Path

import pytest

from broker.common.errors import ErrorCode
from broker.common.slices import run_through
from broker.config.sections.share_groups import READ_COMMITTED, SharePartitionConfig, duration_ms
from broker.coordinator.share.share_partitions import ShareSettings, share_settings
from broker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from broker.quotas.entity import Entity
from broker.records.build import NewRecord, build_batch
from broker.records.control import Marker
from broker.records.header import TRANSACTIONAL_FLAG
from broker.security.acl.acl import Acl, Operation, ResourceType
from tests.api.harness import WALL_MS, Connection, Harness
from tests.controller.world import AUTHORIZER
from tests.coordinator.share.consumers import Member, acquired_in, code_of, offsets_in
from tests.coordinator.share.members import ACCEPT
from tests.security.acl.acls import allow


def set_rate(harness: Harness, rate: float) -> None:
    limits = [(Entity(client_id="test"), "consumer_byte_rate", rate)]
    run_through(harness.quotas.switch(run_through(harness.quotas.draft(limits, ())), harness.clock.ms()))


async def test_a_fetch_over_its_quota_gives_its_records_back(harness: Harness) -> None:
    """The records of the second fetch do not count as delivered; the acknowledgements are stored."""
    for _ in range(2):
        log = harness.partitions.log("orders", 0)
        assert log is not None
        log.stage(build_batch([NewRecord(None, b"v" * 6_000, WALL_MS)]), now_wall_ms=WALL_MS)
    harness.partitions.commit()
    set_rate(harness, 1_000)
    member = Member(harness)
    first = await member.fetch(records=1)
    assert (acquired_in(first), first.throttle_time_ms) == ([(0, 0, 1)], 0)
    second = await member.fetch((0, 0, [ACCEPT]), records=1)
    assert acquired_in(second) == [] and second.throttle_time_ms > 0
    (partition,) = second.responses[0].partitions
    assert (partition.acknowledge_error_code, bytes(partition.records)) == (0, b"")
    assert partition.error_code == 0
    harness.advance(60_000)
    assert await member.acquired(records=1) == [(1, 1, 1)]


async def test_a_member_needs_read_on_the_group_and_on_the_topic(tmp_path: Path) -> None:
    harness = Harness(
        tmp_path, AUTHORIZER, "super.users=User:root", "share.coordinator.state.topic.num.partitions=1"
    )
    root = Connection()
    root.principal = "root"
    await harness.ask(CreateTopicsRequest([CreatableTopic("orders", 1, 1)]), connection=root)
    await harness.share.persister.initialize("readers", harness.partitions.by_name["orders"].topic_id, 0, 0)
    harness.append("orders", 1)
    member = Member(harness)
    member.connection.principal = "alice"
    assert (await member.fetch()).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    member.epoch = 0
    grant(harness, allow(Operation.READ, "readers", kind=ResourceType.GROUP))
    reply = await member.fetch()
    assert reply.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code_of(await member.acknowledge((0, 0, [ACCEPT]))) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    grant(harness, allow(Operation.READ, "orders"))
    assert await member.acquired() == [(0, 0, 1)]
    assert await member.acknowledged((0, 0, [ACCEPT])) == 0
    harness.close()


def grant(harness: Harness, *acls: Acl) -> None:
    assert harness.authorizer is not None
    run_through(harness.authorizer.update(acls, ()))


def in_transaction(harness: Harness, producer: int, sequence: int, count: int) -> None:
    log = harness.partitions.log("orders", 0)
    assert log is not None
    batch = build_batch(
        [NewRecord(None, b"value", WALL_MS)] * count,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        attributes=TRANSACTIONAL_FLAG,
    )
    log.stage(batch, now_wall_ms=WALL_MS, transactional=True)
    harness.partitions.commit()


def end(harness: Harness, producer: int, *, is_commit: bool) -> None:
    log = harness.partitions.log("orders", 0)
    assert log is not None
    log.stage_marker(Marker(is_commit, 0), producer, 0, WALL_MS)
    harness.partitions.commit()


def read_committed(harness: Harness) -> None:
    settings = ShareSettings(is_committed=True)
    harness.share.share.settings_of = lambda _group: settings


async def test_a_group_of_committed_records_skips_aborted_ones(harness: Harness) -> None:
    """Offsets: 0-2 of an aborted transaction, 3 its marker, 4-5 of a committed one, 6 its marker, 7 plain."""
    read_committed(harness)
    in_transaction(harness, 7, 0, 3)
    end(harness, 7, is_commit=False)
    in_transaction(harness, 8, 0, 2)
    end(harness, 8, is_commit=True)
    harness.append("orders", 1)
    member = Member(harness)
    reply = await member.fetch()
    assert acquired_in(reply) == [(3, 7, 1)]
    assert await member.acknowledged((3, 7, [0, 1, 1, 0, 1])) == 0
    topic_id = member.topic_id
    summary = harness.share.persister.summary("readers", topic_id, 0)
    assert summary is not None and summary.start_offset == 8


async def test_a_group_of_committed_records_waits_for_the_end_of_a_transaction(harness: Harness) -> None:
    read_committed(harness)
    harness.append("orders", 1)
    in_transaction(harness, 7, 0, 3)
    member = Member(harness)
    assert await member.acquired() == [(0, 0, 1)]
    waiting = await member.put(wait_ms=500)
    assert waiting.outcome is None
    end(harness, 7, is_commit=True)
    harness.fetches.complete(harness.partitions.log("orders", 0))
    harness.deliver()
    assert acquired_in(harness.answer(waiting)) == [(1, 4, 1)]


async def test_a_group_of_all_records_receives_those_of_aborted_transactions(harness: Harness) -> None:
    in_transaction(harness, 7, 0, 3)
    end(harness, 7, is_commit=False)
    reply = await Member(harness).fetch()
    assert acquired_in(reply) == [(0, 3, 1)] and offsets_in(reply) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("reset", "ms"),
    [
        ("latest", None),
        ("by_duration:", None),
        ("by_duration:P", None),
        ("by_duration:PT", None),
        ("by_duration:1H", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P1DT1M1.5S", 86_461_500),
        ("by_duration:pt0.001s", 1),
    ],
)
def test_the_durations_of_offset_resets(reset: str, ms: int | None) -> None:
    assert duration_ms(reset) == ms


@pytest.mark.parametrize(
    ("own", "expected"), [("14999", 15_000), ("15000", 15_000), ("60000", 60_000), ("60001", 60_000)]
)
def test_the_lock_duration_of_a_group_stays_in_the_brokers_range(own: str, expected: int) -> None:
    configs = {"share.record.lock.duration.ms": own, "share.isolation.level": READ_COMMITTED}
    settings = share_settings(configs, SharePartitionConfig())
    assert (settings.record_lock_duration_ms, settings.is_committed) == (expected, True)
    assert share_settings({}, SharePartitionConfig()) == ShareSettings()
