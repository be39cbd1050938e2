"""Gateways whose log of changes is signed: what others write there has no effect, and does not stop them."""

import logging
from collections import Counter

import pytest
import trio

from broker.common.errors import ErrorCode
from broker.config.sections import GatewayConfig
from broker.gateway.sharing.commits import Commit, write_beginning, write_commit
from broker.gateway.sharing.metadata_log import HALF_SIGNED, NO_KEY, OLD_LOG
from broker.gateway.sharing.sign_metadata import CannotSign, Survey, sign
from broker.gateway.sharing.signing import ClusterKeys, Refusal, SignedRecords
from broker.metadata.changes import Change, ChangeKind
from tests.gateway.sharing.test_metadata_log import ALICE, ANN, BOB, Gateway, start, stores, topic  # noqa: F401
from tests.support.memory_log import MemoryLog, MemoryTopic

FIRST, SECOND, STRANGER = "1" * 32, "2" * 32, "3" * 32
TOKEN = '{"role":"ADMIN","salt":"00","digest":"00"}'


def keys(*texts: str) -> ClusterKeys:
    return ClusterKeys(GatewayConfig(cluster_keys=",".join(texts or (FIRST,))))


def forged(row: int) -> bytes:
    change = Change(ChangeKind.ADMIN_TOKEN, "evil", "token", TOKEN)
    return write_commit(Commit("c", "g", row, 1, ANN, [change]))


@pytest.fixture
def signing(topic, stores, nursery):  # noqa: F811
    """Start gateways that sign."""

    async def make(*names: str, own: ClusterKeys | None = None, at: int = 0) -> list[Gateway]:
        made = [
            Gateway(name, topic, store, own or keys())
            for name, store in zip(names, stores[at:], strict=False)
        ]
        for gateway in made:
            nursery.start_soon(gateway.metadata.run)
            await gateway.metadata.followed.wait()
        return made

    return make


async def agree(_found: Survey) -> None:
    pass


async def run_sign(topic: MemoryTopic, *texts: str, confirm=agree, log: MemoryLog | None = None) -> int:  # noqa: F811
    own = keys(*texts)
    numbers = iter(range(100))
    return await sign(
        log or MemoryLog(topic),
        lambda: SignedRecords("__weir_metadata", f"sign-{id(own)}-{next(numbers)}", own),
        own.first.id,
        confirm,
    )


async def test_without_signatures_a_forged_record_makes_an_administrator(autojump_clock, start, topic):  # noqa: F811
    """What the others prevent; here, ACLs of the cluster must."""
    (gateway,) = start("a")
    topic.append(b"x", forged(2))
    await trio.sleep(1)
    assert set(gateway.control.image.tokens) == {"evil"}


async def test_without_signatures_no_beginning_counts(autojump_clock, start, topic):  # noqa: F811
    topic.append(b"x", write_beginning(99))
    (gateway,) = start("a")
    await gateway.metadata.followed.wait()
    assert gateway.metadata.problem is None
    assert await gateway.set(ALICE, 1_000) is ErrorCode.NONE


async def test_a_forged_record_is_skipped_counted_and_reported(autojump_clock, signing, topic, caplog):  # noqa: F811
    first, second = await signing("a", "b")
    assert await first.set(ALICE, 1_000) is ErrorCode.NONE
    await trio.sleep(1)
    for number in range(3):
        topic.append(f"{number}".encode(), forged(3))
    await trio.sleep(1)
    assert await second.set(BOB, 2_000) is ErrorCode.NONE
    await trio.sleep(1)
    for gateway in (first, second):
        assert not gateway.control.image.tokens
        assert (gateway.rate(ALICE), gateway.rate(BOB)) == (1_000, 2_000)
        assert gateway.metadata.problem is None
        assert gateway.records.refused.total == {Refusal.UNSIGNED: 3}
    reported = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message for record in reported] == ["a record of the metadata is not believed"] * 2


@pytest.mark.parametrize("copies", [1, 3])
async def test_a_genuine_record_has_no_effect_a_second_time(autojump_clock, signing, topic, copies):  # noqa: F811
    (gateway,) = await signing("a")
    for rate in (1_000, 2_000, 3_000):
        assert await gateway.set(ALICE, rate) is ErrorCode.NONE
    genuine = list(topic.entries)
    for number in range(copies):
        for entry in genuine:
            topic.append(entry.key + b"%d" % number if number else entry.key, entry.value)
    await trio.sleep(1)
    assert gateway.rate(ALICE) == 3_000
    assert gateway.metadata.problem is None
    # Under another key, a record has a wrong signature.
    replayed, elsewhere = len(genuine), len(genuine) * (copies - 1)
    assert gateway.records.refused.total == +Counter(
        {Refusal.REPLAYED: replayed, Refusal.SIGNATURE: elsewhere}
    )


async def test_a_gateway_that_starts_later_reads_the_log_as_the_others(autojump_clock, signing, topic):  # noqa: F811
    (first,) = await signing("a")
    await trio.sleep(1)
    topic.append(b"x", forged(2))
    await first.set(ALICE, 1_000)
    genuine = list(topic.entries)
    topic.append(b"y", forged(3))
    for entry in genuine:
        topic.append(entry.key, entry.value)
    await first.set(BOB, 2_000)
    (second,) = await signing("b", at=1)
    await trio.sleep(1)
    assert second.rows() == first.rows() and len(second.rows()) == 2
    assert await second.set(ALICE, 5) is ErrorCode.NONE


async def test_a_forged_record_of_a_later_version_or_with_a_wrong_number_stops_nobody(
    autojump_clock,
    signing,
    topic,  # noqa: F811
):
    (gateway,) = await signing("a")
    await trio.sleep(1)
    topic.append(b"1", b'{"version":2}')
    topic.append(b"2", forged(99))
    topic.append(b"3", b"weir-signed 9 x\n")
    await trio.sleep(1)
    assert await gateway.set(ALICE, 1_000) is ErrorCode.NONE
    assert gateway.records.refused.total == {Refusal.UNSIGNED: 2, Refusal.FORMAT: 1}


async def test_a_gateway_with_another_key_believes_nothing_and_starts_no_log_of_its_own(
    autojump_clock,
    signing,
    topic,  # noqa: F811
):
    (first,) = await signing("a")
    await trio.sleep(1)
    await first.set(ALICE, 1_000)
    end = topic.end
    (other,) = await signing("b", own=keys(STRANGER), at=1)
    await trio.sleep(1)
    assert "which is not in the keys here" in (other.metadata.problem or "")
    assert await other.set(BOB, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert topic.end == end


async def test_a_gateway_without_a_key_stops_at_a_signed_log(autojump_clock, signing, start):  # noqa: F811
    await signing("a")
    await trio.sleep(1)
    (plain,) = start("p")
    await trio.sleep(1)
    assert plain.metadata.problem == NO_KEY


async def test_a_log_without_signatures_is_signed_once_by_the_command(
    autojump_clock,
    start,  # noqa: F811
    topic,  # noqa: F811
    stores,  # noqa: F811
    nursery,
):
    old, other = start("a", "b")
    for rate in (1_000, 2_000, 3_000):
        assert await old.set(ALICE, rate) is ErrorCode.NONE
        assert await other.set(BOB, rate) is ErrorCode.NONE
    topic.append(
        b"lost",
        write_commit(Commit("c", "g", 3, 1, ANN, [Change(ChangeKind.ADMIN_TOKEN, "e", "token", TOKEN)])),
    )
    end = topic.end
    # A new store and the old one: neither goes on before the log is signed.
    for store in stores[2], old.store:
        refused = Gateway("c", topic, store, keys())
        await refused.metadata.run()
        assert refused.metadata.must_be_signed and refused.metadata.problem == OLD_LOG
    assert topic.end == end

    seen: list[Survey] = []

    async def look(found: Survey) -> None:
        seen.append(found)

    assert await run_sign(topic, FIRST, confirm=look) == 7
    assert [each.commit.first for each in seen[0].unsigned] == [2, 3, 4, 5, 6, 7]
    assert await run_sign(topic, FIRST) == 0
    fresh = Gateway("c2", topic, stores[2], keys())
    again = Gateway("a3", topic, old.store, keys())
    for gateway in (again, fresh):
        nursery.start_soon(gateway.metadata.run)
        await gateway.metadata.followed.wait()
        assert gateway.metadata.problem is None
        assert gateway.rows() == old.rows()
    assert await again.set(ALICE, 9_000) is ErrorCode.NONE
    await trio.sleep(1)
    assert fresh.rate(ALICE) == 9_000 and not fresh.control.image.tokens


async def test_what_is_unsigned_in_a_signed_log_is_never_adopted(autojump_clock, signing, topic):  # noqa: F811
    (gateway,) = await signing("a")
    await trio.sleep(1)
    topic.append(b"1", forged(2))
    seen: list[Survey] = []

    async def look(found: Survey) -> None:
        seen.append(found)

    assert await run_sign(topic, FIRST, confirm=look) == 0
    assert not seen
    assert await gateway.set(ALICE, 1_000) is ErrorCode.NONE
    assert await run_sign(topic, SECOND, FIRST, confirm=look) == 2
    assert not seen[0].unsigned
    assert not gateway.control.image.tokens


async def test_an_interrupted_adoption_is_refused_and_goes_on(autojump_clock, start, topic, stores, nursery):  # noqa: F811
    (old,) = start("a")
    for rate in range(1, 6):
        await old.set(ALICE, rate)
    topic.append(b"later", forged(7))
    unsigned = topic.end - 1
    log = MemoryLog(topic)
    appends = 0
    original = log.append

    async def fails_later(key, value) -> None:
        nonlocal appends
        appends += 1
        if appends > 3:
            raise CannotSign("interrupted")
        await original(key, value)

    log.append = fails_later

    async def forget_forged(found: Survey) -> None:
        # The last one was written after the operator had looked.
        assert len(found.unsigned) == 6

    topic.entries.pop()
    topic.end -= 1
    with pytest.raises(CannotSign):
        await run_sign(topic, FIRST, log=log)
    assert topic.end == unsigned + 3
    topic.append(b"later", forged(7))
    fresh = Gateway("b", topic, stores[1], keys())
    nursery.start_soon(fresh.metadata.run)
    await trio.sleep(1)
    assert fresh.metadata.must_be_signed and fresh.metadata.problem == HALF_SIGNED
    assert await run_sign(topic, FIRST) == 3
    fresh = Gateway("c", topic, stores[2], keys())
    nursery.start_soon(fresh.metadata.run)
    await trio.sleep(1)
    assert fresh.metadata.problem is None and fresh.rate(ALICE) == 5
    assert not fresh.control.image.tokens


async def test_a_key_is_replaced_without_a_stop(autojump_clock, signing, topic):  # noqa: F811
    """Both keys everywhere, the new one first; then the log is signed again, and the old key forgotten."""
    (old,) = await signing("a", own=keys(FIRST, SECOND))
    for rate in (1_000, 2_000):
        assert await old.set(ALICE, rate) is ErrorCode.NONE
    (turned,) = await signing("b", own=keys(SECOND, FIRST), at=1)
    assert await turned.set(BOB, 3_000) is ErrorCode.NONE
    await trio.sleep(1)
    assert old.rate(BOB) == 3_000
    assert await run_sign(topic, SECOND, FIRST) == 4
    assert await run_sign(topic, SECOND, FIRST) == 0
    (new,) = await signing("c", own=keys(SECOND), at=2)
    await trio.sleep(1)
    assert new.metadata.problem is None and new.rows() == old.rows()
    assert await new.set(ALICE, 4_000) is ErrorCode.NONE
    await trio.sleep(1)
    assert {each.rate(ALICE) for each in (old, turned, new)} == {4_000}
    assert not any(each.records.refused.total for each in (old, turned, new))


async def test_a_change_during_the_signing_is_signed_too(autojump_clock, signing, topic):  # noqa: F811
    (gateway,) = await signing("a", own=keys(FIRST, SECOND))
    for rate in range(1, 20):
        await gateway.set(ALICE, rate)
    other = Gateway("b", topic, gateway.store, keys(SECOND, FIRST))
    assert other is not gateway
    log = MemoryLog(topic, append_s=0.1)
    changed = 0

    async def change(found: Survey) -> None:
        nonlocal changed
        async with trio.open_nursery() as inner:
            for number in range(3):
                inner.start_soon(gateway.set, BOB, 100 + number)
        changed = len(found.missing)

    assert await run_sign(topic, SECOND, FIRST, confirm=change, log=log) >= 20
    assert await run_sign(topic, SECOND, FIRST) == 0
    (new,) = await signing("c", own=keys(SECOND), at=2)
    await trio.sleep(1)
    assert new.metadata.problem is None and new.rows() == gateway.rows()
