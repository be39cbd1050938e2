"""Usage and debts across restarts of a broker, on a clock that all of its runs share. The file of saved
usage: its bound, the order in which entities go into it, and what damage does to it.
"""

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from broker.common.errors import ConfigError
from broker.controller.commands import AlterClientQuotas, QuotaAlteration, QuotaOp
from broker.log import disk
from broker.metadata.actor import BROKER_ITSELF
from broker.network import clock as clocks
from broker.quotas.saved_usage import Saved, SavedUsage
from broker.server.parts.quota_usage import (
    FILE,
    MAX_BYTES,
    SAVE_SECONDS,
    SORTED_AT_ONCE,
    UsageFileError,
    decode,
    encode,
)
from tests.support.produce import PRODUCE_VERSION, batch_of, create_topic, produce_request
from tests.support.running import RunningBroker, running_broker

LIMIT = 1_000
WALL_MS = 1_800_000_000_000
SAVES_MS = round(SAVE_SECONDS * 1_000)


@pytest.fixture(autouse=True)
def wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the wall clock follow the mock clock, in every run of the broker."""
    monkeypatch.setattr(clocks, "_real_wall_ms", lambda: WALL_MS + round(trio.current_time() * 1_000))


async def limit(broker: RunningBroker) -> None:
    rule = QuotaAlteration((("client-id", "busy"),), (QuotaOp("producer_byte_rate", LIMIT),))
    (outcome,) = await broker.server.control.apply(AlterClientQuotas((rule,)), BROKER_ITSELF)
    assert outcome.ok


async def produce(broker: RunningBroker, nbytes: int) -> int:
    """Produce a request of about `nbytes` on a new connection; return the throttle time of the response."""
    client = await broker.connect("busy")
    answer = await client.ask(produce_request(batch_of(b"r" * nbytes)), PRODUCE_VERSION)
    return int(answer.throttle_time_ms)


def owed_ms(broker: RunningBroker) -> float:
    sensor = broker.server.quotas.produce.find("ANONYMOUS", "busy")
    assert sensor is not None
    return (sensor.spent(broker.server.clock.ms()) or 0.0) / LIMIT * 1_000


async def passes(clock: MockClock, ms: float) -> None:
    """Let the time pass, and every task do what is due then, also what threads do."""
    clock.jump(ms / 1_000)
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked(0.005)
        await trio.to_thread.run_sync(lambda: None)


async def busy_broker(broker: RunningBroker) -> float:
    """Let the client owe about eighteen seconds; return the milliseconds."""
    maker = await broker.connect("maker")
    assert (await maker.ask(create_topic(), 5)).topics[0].error_code == 0
    await limit(broker)
    assert await produce(broker, 18_000) > 8_000
    return owed_ms(broker)


async def test_a_client_that_reconnects_after_a_stop_waits_for_the_rest(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with running_broker(tmp_path) as broker:
        owed = await busy_broker(broker)
        mock_clock.jump((owed - 8_000) / 1_000)
        assert owed_ms(broker) == pytest.approx(8_000, abs=1)
    mock_clock.jump(3)
    async with running_broker(tmp_path) as broker:
        assert await produce(broker, 1) == pytest.approx(5_000, abs=1)


def killed(monkeypatch: pytest.MonkeyPatch, broker: RunningBroker) -> None:
    """Let the broker end without its last save."""
    monkeypatch.setattr(broker.server.server_quotas.usage, "close", lambda: None)


@pytest.mark.parametrize(("later_ms", "is_saved"), [(SAVES_MS - 1, False), (SAVES_MS, True), (5_000, True)])
async def test_a_kill_forgives_what_was_used_since_the_last_save(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, later_ms: int, is_saved: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        owed = await busy_broker(broker)
        await passes(mock_clock, later_ms)
        killed(monkeypatch, broker)
    async with running_broker(tmp_path) as broker:
        throttle_ms = await produce(broker, 1)
        assert throttle_ms == (pytest.approx(owed - later_ms, abs=1) if is_saved else 0)


async def test_the_file_is_written_when_something_changed_and_only_then(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int, bool]] = []
    replace = disk.replace_file

    def note(path: str, content: bytes, *, flushed: bool = False) -> None:
        if Path(path).name == FILE:
            written.append((len(decode(content).entries), flushed))
        replace(path, content, flushed=flushed)

    monkeypatch.setattr(disk, "replace_file", note)
    async with running_broker(tmp_path) as broker:
        await passes(mock_clock, SAVES_MS)
        await passes(mock_clock, SAVES_MS)
        assert written == [(0, False)], "nothing is known of the file before"
        await busy_broker(broker)
        for _ in range(3):
            await passes(mock_clock, SAVES_MS)
        assert written[1:] == [(1, False)], "what is repaid is not written"
        await produce(broker, 1)
        await passes(mock_clock, SAVES_MS)
        assert written[2:] == [(1, False)]
    assert written[3:] == [(1, True)], "flushed at the end"
    assert [name for name in os.listdir(tmp_path) if name.startswith(FILE)] == [FILE]
    assert (tmp_path / FILE).stat().st_mode & 0o077 & ~0o040 == 0, "names of clients are nobody else's"


async def test_nothing_is_saved_or_read_when_it_is_off(tmp_path: Path, mock_clock: MockClock) -> None:
    off = "quota.usage.persistence.enable=false"
    async with running_broker(tmp_path, off) as broker:
        await busy_broker(broker)
        await passes(mock_clock, SAVES_MS)
    assert not (tmp_path / FILE).exists()
    async with running_broker(tmp_path) as broker:
        assert await produce(broker, 18_000) > 8_000
    async with running_broker(tmp_path, off) as broker:
        assert await produce(broker, 1) == 0


Damage = Callable[[Path], object]

DAMAGED: dict[str, tuple[Damage, str]] = {
    "empty": (lambda file: file.write_bytes(b""), "it is damaged: no version"),
    "cut off": (lambda file: file.write_bytes(file.read_bytes()[:-1]), "it is damaged: its checksum"),
    "flipped": (
        lambda file: file.write_bytes(file.read_bytes()[:-9] + b"?" * 9),
        "it is damaged: its checksum",
    ),
    "of zeros": (lambda file: file.write_bytes(bytes(4_096)), "it is damaged: no version"),
    "newer": (lambda file: file.write_bytes(b"weir-quota-usage 2\n"), "its version is 2, not 1"),
    "too large": (lambda file: os.truncate(file, MAX_BYTES + 1), f"it has more than {MAX_BYTES} bytes"),
    "a directory": (lambda file: (file.unlink(), file.mkdir()), "Is a directory"),
}


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_file_that_cannot_be_used_is_reported_in_one_line_and_never_stops_the_start(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async with running_broker(tmp_path) as broker:
        await busy_broker(broker)
    damage, reason = DAMAGED[kind]
    damage(tmp_path / FILE)
    caplog.set_level(logging.WARNING)
    async with running_broker(tmp_path) as broker:
        (record,) = [each for each in caplog.records if "file" in each.__dict__]
        assert record.getMessage() == "quotas start without the usage of the last run"
        assert reason in record.__dict__["reason"] and record.__dict__["file"] == str(tmp_path / FILE)
        assert await produce(broker, 1) == 0
        assert await produce(broker, 18_000) > 8_000
    caplog.clear()
    async with running_broker(tmp_path) as broker:
        is_replaced = kind != "a directory"
        assert (await produce(broker, 1) > 0) is is_replaced
        assert bool(caplog.records) is not is_replaced


async def test_a_disk_that_takes_no_file_is_reported_once_until_it_takes_one_again(
    tmp_path: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_full = True
    replace = disk.replace_file

    def write(path: str, content: bytes, *, flushed: bool = False) -> None:
        if is_full:
            raise OSError(28, "No space left on device")
        replace(path, content, flushed=flushed)

    monkeypatch.setattr(disk, "replace_file", write)
    caplog.set_level(logging.WARNING)

    def reported() -> list[str]:
        return [each.getMessage() for each in caplog.records if "reason" in each.__dict__]

    async with running_broker(tmp_path) as broker:
        await busy_broker(broker)
        await passes(mock_clock, SAVES_MS)
        await produce(broker, 1)
        await passes(mock_clock, SAVES_MS)
        assert reported() == ["usage of quotas is not saved, a restart would clear it"]
        is_full = False
        await produce(broker, 1)
        await passes(mock_clock, SAVES_MS)
        assert (tmp_path / FILE).exists()
        is_full = True
        await produce(broker, 1)
        await passes(mock_clock, SAVES_MS)
        assert len(reported()) == 2
        is_full = False


async def test_a_server_that_was_not_built_writes_nothing(tmp_path: Path, mock_clock: MockClock) -> None:
    async with running_broker(tmp_path) as broker:
        await busy_broker(broker)
        before = (tmp_path / FILE).exists()
        with pytest.raises(ConfigError, match="Address already in use"):
            async with running_broker(tmp_path / "other", f"listeners=PLAINTEXT://127.0.0.1:{broker.port}"):
                pass
    assert not before and not (tmp_path / "other" / FILE).exists()


def entry(number: int, worth_s: float = 1.0, name: str = "u") -> SavedUsage:
    return SavedUsage("produce", f"{name}{number:07}", None, None, 1_000.0, worth_s, 8.5, [(1_500, 500, 7.0)])


def saved(*entries: SavedUsage) -> Saved:
    return Saved(1_700_000_000_000, 1_800_000_000_000, (11, 1_000), (11, 1_000), list(entries))


def test_what_is_written_is_read():
    one = SavedUsage("broker/ip", "10.0.0.1", None, None, 5.0, 2.5, None, [])
    two = SavedUsage("fetch", None, "app", -1, 0.5, 3.0, -0.25, [(0, 0, 1.5), (10_999, 1, 2.0)])
    assert decode(encode(saved(two, one))) == saved(one, two)
    assert decode(encode(saved())) == saved()


@pytest.mark.parametrize("count", [1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, 3 * SORTED_AT_ONCE])
def test_what_has_used_most_of_its_limit_comes_first(count):
    entries = [entry(number, worth_s=number * 7_919 % count) for number in range(count)]
    read = decode(encode(saved(*entries))).entries
    assert [each.worth_s for each in read] == [float(number) for number in reversed(range(count))]


def test_the_file_is_bounded_and_what_fits_exactly_is_in_it():
    entries = [entry(number, worth_s=9 - number) for number in range(9)]
    whole = encode(saved(*entries))
    one = len(encode(saved(entry(0)))) - len(encode(saved()))
    for room, kept in ((len(whole) + 1, 9), (len(whole), 9), (len(whole) - 1, 8), (len(whole) - one - 1, 7)):
        data = encode(saved(*entries), room)
        assert len(data) <= room
        assert decode(data).entries == entries[:kept]


def test_ids_that_clients_choose_keep_no_user_out():
    ids = [
        SavedUsage("produce", None, "x" * 9_000 + str(number), None, 1.0, 99.0, 99.0, [])
        for number in range(9)
    ]
    data = encode(saved(*ids, entry(1, worth_s=0.1)), 30_000)
    assert [each.user for each in decode(data).entries] == [entry(1).user, None, None, None]


def test_a_name_that_is_no_text_keeps_only_itself_out():
    strange = SavedUsage("produce", "\udcff", None, None, 1.0, 99.0, 99.0, [])
    assert decode(encode(saved(entry(1), strange, entry(2)))) == saved(entry(1), entry(2))


def test_any_number_of_long_names_stays_within_the_bound():
    entries = [entry(number, name="n" * 30_000) for number in range(200)]
    data = encode(saved(*entries))
    assert MAX_BYTES - 30_100 < len(data) <= MAX_BYTES
    assert len(decode(data).entries) == (MAX_BYTES - 100) // 30_060


def test_a_larger_file_is_refused():
    data = encode(saved(entry(1)))
    with pytest.raises(UsageFileError, match=f"it has {MAX_BYTES + 1} bytes, more than {MAX_BYTES}"):
        decode(data + bytes(MAX_BYTES + 1 - len(data)))
    with pytest.raises(UsageFileError, match="checksum"):
        decode(data + bytes(MAX_BYTES - len(data)))


def test_every_flipped_bit_and_every_missing_byte_is_found():
    data = encode(saved(entry(1), entry(2)))
    for index in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[index] ^= 1 << bit
            with pytest.raises(UsageFileError):
                decode(bytes(damaged))
        with pytest.raises(UsageFileError):
            decode(data[:index])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no version"),
        (b"\n", "no version"),
        (b"weir-quota-usage \n", "no version"),
        (b"weir-quota-usage 1", "no version"),
        (b"weir-quota-usage 1\n", "checksum"),
        (b"weir-quota-usage 2\nanything", "its version is 2, not 1"),
        (b"weir-quota-usage 17\nanything", "its version is 17, not 1"),
        (b"weir-quota-usage x\n", "no version"),
        (b"SQLite format 3\0" * 100, "no version"),
        (bytes(1_000), "no version"),
    ],
)
def test_a_file_of_another_kind_or_version_is_refused_with_its_reason(data, reason):
    with pytest.raises(UsageFileError, match=reason):
        decode(data)
