"""An exception in a timer's callback, or in a background task that serves many, closes one connection or
fails one request, with one log line; uses the setup of `test_failures`.
"""

from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.api.fetch.pending import PendingFetch
from broker.common.errors import ErrorCode
from broker.coordinator.group.expiry import FAILED_TIMER_RETRY_MS, TimerExpiry
from broker.coordinator.transaction.coordinator import RETRY_MS
from broker.coordinator.transaction.state import TransactionState
from broker.coordinator.transaction_service import TransactionService
from broker.network.failures import FailedStep
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.end_txn import EndTxnRequest
from broker.protocol.messages.find_coordinator import FindCoordinatorRequest
from broker.protocol.messages.init_producer_id import InitProducerIdRequest
from broker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from broker.telemetry.manager import TelemetryManager
from tests.network.telemetry_talk import ask, push, subscribe
from tests.network.test_failures import (
    Scene,
    Unforeseen,
    asked_before,
    counted,
    delayed_fetch,
    of_victim,
    scene_in,
)

__all__ = ["scene_in"]


async def test_an_answer_that_fails_when_a_fetch_expires_is_an_error_of_its_own(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        client, other = await scene.connect(), await scene.broker.connect("other")
        for each in (client, other):
            await each.send(delayed_fetch(), 11)
        await wait_all_tasks_blocked(0.001)
        scene.break_once(PendingFetch, "response", lambda pending, **_: of_victim(pending.context))
        await scene.passes(30)
        for each, error in ((client, ErrorCode.UNKNOWN_SERVER_ERROR), (other, ErrorCode.NONE)):
            _, answer = await each.receive(ApiKey.FETCH, 11)
            assert answer.error_code == error
        assert counted(scene) == {FailedStep.CALLBACK: 1}

    await scene_in(act)


async def test_an_answer_that_fails_in_a_full_callback_queue_does_not_fail_the_timer(
    scene_in: Any, mock_clock: MockClock
) -> None:
    """The queue takes one callback; the timer that posts the second concludes the first."""

    async def act(scene: Scene) -> None:
        client, *others = [await scene.connect(), *[await scene.broker.connect(f"o{n}") for n in range(3)]]
        for each in (client, *others):
            await each.send(delayed_fetch(), 11)
        await wait_all_tasks_blocked(0.001)
        scene.break_once(PendingFetch, "response", lambda pending, **_: of_victim(pending.context))
        await scene.passes(30)
        assert scene.broker.server.callbacks.blocked == 3
        for each in others:
            _, answer = await each.receive(ApiKey.FETCH, 11)
            assert answer.error_code == ErrorCode.NONE
        assert counted(scene) == {FailedStep.CALLBACK: 1}
        await trio.aclose_forcefully(client.stream)

    await scene_in(act, "queued.max.requests=1")


async def test_a_group_whose_timer_fails_disturbs_no_other_and_has_another_turn(
    scene_in: Any, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The sessions of both members end at the same time."""

    async def act(scene: Scene) -> None:
        clients = [await scene.broker.connect(name) for name in ("one", "two")]
        for client in clients:
            await client.ask(FindCoordinatorRequest(client.client_id), 3)
            protocols = [JoinGroupRequestProtocol("range", b"")]
            request = JoinGroupRequest(client.client_id, 10_000, 60_000, "", None, "consumer", protocols)
            joined = await client.ask(request, 3)
            assert joined.error_code == ErrorCode.NONE
        coordinator = scene.broker.server.delayed.groups.groups.coordinator

        def members(group: str) -> int:
            described = coordinator.classic.described(group, missing_is_error=False)
            return len(described.members)

        scene.break_once(TimerExpiry, "_handle", lambda _self, _turn, timer: timer.group_id == "one")
        await scene.passes(10)
        assert [members(name) for name in ("one", "two")] == [1, 0]
        assert counted(scene) == {FailedStep.GROUP_TIMER: 1}
        await scene.passes((FAILED_TIMER_RETRY_MS - 2) / 1000)
        assert members("one") == 1
        await scene.passes(0.004)
        assert members("one") == 0
        assert counted(scene) == {FailedStep.GROUP_TIMER: 1}

    await scene_in(act, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000")
    (line,) = [record for record in caplog.records if record.message == "unexpected exception"]
    assert line.__dict__["group"] == "one"


async def test_a_held_login_that_fails_ends_its_connection_and_the_others_have_their_turn(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        clients = [await asked_before(scene) for _ in range(2)]
        channels = [each for each in scene.broker.server.socket_server.channels() if of_victim(each)]
        reported: list[int] = []

        def fails(_now_ms: int) -> None:
            scene.raised += 1
            raise Unforeseen

        users = scene.broker.server.socket_server.users
        users.delay(channels[0], 1_000, fails)
        users.delay(channels[1], 1_000, reported.append)
        await scene.passes(1)
        assert [channel.closed for channel in channels] == [True, False]
        assert len(reported) == 1 and users.delayed == 0
        assert counted(scene) == {FailedStep.USER_LIMIT: 1}
        for client in clients:
            await trio.aclose_forcefully(client.stream)

    await scene_in(act)


async def test_a_push_that_the_broker_fails_to_take_is_answered_with_an_error(
    scene_in: Any, mock_clock: MockClock
) -> None:
    async def act(scene: Scene) -> None:
        await subscribe(scene.broker, metrics="*", interval_ms="60000")
        client = await scene.connect()
        subscription = await ask(client)
        scene.break_once(TelemetryManager, "failed")
        assert await push(client, subscription, b"no metrics") == ErrorCode.UNKNOWN_SERVER_ERROR
        assert counted(scene) == {FailedStep.CALLBACK: 1}
        other = await scene.broker.connect("other")
        subscription = await ask(other, b"x" * 16)
        assert await push(other, subscription, b"no metrics") == ErrorCode.INVALID_RECORD

    await scene_in(act)


async def test_a_transaction_whose_end_fails_is_ended_later(scene_in: Any, mock_clock: MockClock) -> None:
    async def act(scene: Scene) -> None:
        client = await scene.broker.connect("producer")
        await client.ask(FindCoordinatorRequest("t", 1), 3)
        made = await client.ask(InitProducerIdRequest("t", 1_000), 4)
        assert made.error_code == ErrorCode.NONE
        scene.break_once(TransactionService, "_write_now", lambda _self, changes, *_: bool(changes))
        end = EndTxnRequest("t", made.producer_id, made.producer_epoch, False)
        assert (await client.ask(end, 5)).error_code == ErrorCode.NONE
        await scene.passes(0.001)
        assert counted(scene) == {FailedStep.TRANSACTION_TIMER: 1}
        transaction = scene.broker.server.delayed.transactions.coordinator.get("t")
        assert transaction is not None and transaction.data.state is TransactionState.PREPARE_ABORT
        await scene.passes(RETRY_MS / 1000)
        assert transaction.data.state is TransactionState.COMPLETE_ABORT

    await scene_in(act)
