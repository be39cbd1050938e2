"""Notifications reach a destination despite its failures, on a mock clock; and the bounds of that."""

import pytest
import trio
from trio.testing import MockClock

from broker.monitoring.alerts.formats import Notification
from broker.monitoring.alerts.outbox import BATCH, CAPACITY, GIVE_UP_MS, Outbox, SendResult
from broker.network.clock import TrioClock

OK = SendResult(200, "OK")
BUSY = SendResult(503, "busy")


def notification(number: int = 0) -> Notification:
    return Notification(f"rule {number}", "lag", "info", (), 1.0, 0.0, 0, None)


class Destination:
    """Answers as told, then with OK; records time and number of notifications of each request."""

    def __init__(self, *answers: SendResult, always: SendResult = OK) -> None:
        self.answers = list(answers)
        self.always = always
        self.requests: list[tuple[float, list[str]]] = []
        self.lost: list[tuple[str, int, str]] = []
        self.outbox = Outbox(self.send, lambda *each: self.lost.append(each), TrioClock())

    async def send(self, batch: object) -> SendResult:
        self.requests.append((trio.current_time(), [each.rule for each in batch]))  # type: ignore[attr-defined]
        await trio.lowlevel.checkpoint()
        return self.answers.pop(0) if self.answers else self.always

    async def run_for(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self.outbox.run()

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.requests]


async def test_what_waits_is_sent_together(autojump_clock: MockClock) -> None:
    to = Destination()
    to.outbox.put(notification(1))
    to.outbox.put(notification(2))
    await to.run_for(5)
    assert to.requests == [(0.0, ["rule 1", "rule 2"])]
    assert (to.outbox.delivery.sent, to.outbox.delivery.waiting) == (2, 0)
    assert to.outbox.delivery.last_sent_at_ms is not None


@pytest.mark.parametrize(
    "answer", [BUSY, SendResult(429, "slow"), SendResult(408, ""), SendResult(0, "refused")]
)
async def test_a_failure_is_tried_again_after_twice_the_time(
    autojump_clock: MockClock, answer: SendResult
) -> None:
    to = Destination(*[answer] * 7)
    to.outbox.put(notification())
    await to.run_for(300)
    assert to.times == [0, 1, 3, 7, 15, 31, 63, 123]
    assert to.outbox.delivery.problem == "" and to.lost == []


async def test_retry_after_is_followed_to_a_minute(autojump_clock: MockClock) -> None:
    to = Destination(SendResult(429, "", "7"), SendResult(429, "", "9999"), SendResult(429, "", "soon"))
    to.outbox.put(notification())
    await to.run_for(300)
    assert to.times == [0, 7, 67, 71]


@pytest.mark.parametrize(
    "answer",
    [SendResult(400, "no"), SendResult(404, ""), SendResult(301, ""), SendResult(0, "x", is_final=True)],
)
async def test_a_permanent_refusal_is_not_tried_again(autojump_clock: MockClock, answer: SendResult) -> None:
    to = Destination(answer)
    to.outbox.put(notification(1))
    await to.run_for(5)
    to.outbox.put(notification(2))
    await to.run_for(5)
    assert [rules for _, rules in to.requests] == [["rule 1"], ["rule 2"]]
    assert to.lost == [("undelivered", 1, answer.text)]
    delivery = to.outbox.delivery
    assert (delivery.sent, delivery.undelivered, delivery.dropped) == (1, 1, 0)


async def test_after_a_quarter_of_an_hour_newer_ones_have_their_turn(autojump_clock: MockClock) -> None:
    to = Destination(always=BUSY)
    to.outbox.put(notification(1))
    await to.run_for(GIVE_UP_MS / 1000 + 1)
    # 1 + 2 + 4 + 8 + 16 + 32 s, then every minute: the 20th attempt would be the first that is too late.
    assert to.times[:8] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert to.times[-1] == 63 + 13 * 60
    assert to.times[-1] + 60 > GIVE_UP_MS / 1000 >= to.times[-1]
    assert to.lost == [("undelivered", 1, "503 busy")]
    assert to.outbox.delivery.problem == "503 busy"


@pytest.mark.parametrize("count", [BATCH - 1, BATCH, BATCH + 1])
async def test_a_request_has_a_largest_number(autojump_clock: MockClock, count: int) -> None:
    to = Destination()
    for number in range(count):
        to.outbox.put(notification(number))
    await to.run_for(5)
    sizes = [len(rules) for _, rules in to.requests]
    assert sizes == ([count] if count <= BATCH else [BATCH, count - BATCH])


@pytest.mark.parametrize("count", [CAPACITY - 1, CAPACITY, CAPACITY + 1])
async def test_the_oldest_goes_when_too_many_wait(autojump_clock: MockClock, count: int) -> None:
    to = Destination()
    for number in range(count):
        to.outbox.put(notification(number))
    over = max(0, count - CAPACITY)
    delivery = to.outbox.delivery
    assert (delivery.waiting, delivery.dropped) == (count - over, over)
    await to.run_for(5)
    assert to.requests[0][1][0] == f"rule {over}"
    assert [each[:2] for each in to.lost] == [("dropped", 1)] * over


async def test_newer_ones_wait_while_one_is_tried_again(autojump_clock: MockClock) -> None:
    to = Destination(BUSY)
    to.outbox.put(notification(1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(to.outbox.run)
        await trio.sleep(0.5)
        to.outbox.put(notification(2))
        assert to.outbox.delivery.waiting == 2
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert to.requests == [(0.0, ["rule 1"]), (1.0, ["rule 1"]), (1.0, ["rule 2"])]
