"""A broker's one thread on a mock clock, which moves in tasks only and never while the loop waits."""

from trio.testing import MockClock

from tests.support.running import RunningBroker


def thread_waits(broker: RunningBroker, clock: MockClock, seconds: float) -> None:
    """So much time passes in epoll."""
    loop = broker.server.server_views.loop_idle
    loop.before_io_wait(seconds)
    clock.jump(seconds)
    loop.after_io_wait(seconds)
