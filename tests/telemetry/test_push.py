"""The queue of pushes is bounded by number and by bytes."""

from broker.telemetry.push import MAX_WAITING, MAX_WAITING_BYTES, Intake, Push
from tests.telemetry.scene import Scene


def push(size: int) -> Push:
    instance = Scene().join()
    return Push(instance, instance.client, 0, False, 0, bytes(size), 0)


def test_what_comes_first_is_taken_first_and_wakes_the_reader() -> None:
    intake = Intake()
    woken: list[int] = []
    intake.read_with(lambda: woken.append(len(intake.waiting)))
    intake.add(push(1))
    intake.add(push(2))
    assert woken == [1, 2]
    assert [len(intake.take().payload) for _ in range(2)] == [1, 2]
    assert (intake.peak, intake.waiting_bytes) == (2, 0)


def test_there_is_room_for_so_many() -> None:
    intake, small = Intake(), push(1)
    for _ in range(MAX_WAITING):
        assert intake.has_space(1)
        intake.add(small)
    assert not intake.has_space(1)
    intake.take()
    assert intake.has_space(1)


def test_there_is_room_for_so_many_bytes_and_always_for_one() -> None:
    intake = Intake()
    assert intake.has_space(2 * MAX_WAITING_BYTES)
    intake.add(push(10))
    assert intake.has_space(MAX_WAITING_BYTES - 10)
    assert not intake.has_space(MAX_WAITING_BYTES - 9)
