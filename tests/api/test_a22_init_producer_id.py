"""InitProducerId."""

from pathlib import Path

import pytest

from broker.common.errors import ApiError, ErrorCode
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.api.harness import Harness


@pytest.mark.parametrize("version", range(6))
async def test_every_request_gets_a_new_id_at_epoch_0(harness: Harness, version: int) -> None:
    replies = [await harness.ask(InitProducerIdRequest(), version) for _ in range(3)]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in replies] == [
        (ErrorCode.NONE, 0, 0),
        (ErrorCode.NONE, 1, 0),
        (ErrorCode.NONE, 2, 0),
    ]


async def test_a_producer_that_had_an_id_gets_a_new_one(harness: Harness) -> None:
    await harness.ask(InitProducerIdRequest())
    reply = await harness.ask(InitProducerIdRequest(producer_id=0, producer_epoch=3))
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (ErrorCode.NONE, 1, 0)


async def test_a_block_has_a_thousand_ids_and_the_next_follows_it(harness: Harness) -> None:
    ids = [(await harness.ask(InitProducerIdRequest())).producer_id for _ in range(1_001)]
    assert ids == list(range(1_001))
    assert harness.control.image.next_producer_id == 2_000


async def test_a_restart_never_gives_an_id_again(tmp_path: Path) -> None:
    first = Harness(tmp_path)
    before = await first.ask(InitProducerIdRequest())
    first.close()
    second = Harness(tmp_path)
    after = await second.ask(InitProducerIdRequest())
    second.close()
    assert (before.producer_id, after.producer_id) == (0, 1_000)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 0)])
async def test_an_id_without_its_epoch_is_an_invalid_request(
    harness: Harness, producer_id: int, epoch: int
) -> None:
    reply = await harness.ask(InitProducerIdRequest(producer_id=producer_id, producer_epoch=epoch))
    assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


async def test_a_disk_that_refuses_makes_producers_ask_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left on device")

    monkeypatch.setattr(harness.metadata, "commit", refuse)
    reply = await harness.ask(InitProducerIdRequest())
    assert reply.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.undo()
    assert (await harness.ask(InitProducerIdRequest())).producer_id == 0
