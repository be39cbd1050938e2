"""Which handlers there are to be, and which of them leads: waits for requests, while the others are parked.

Used by `handler_pool` alone, off the path of a request. Starts no task: it says which numbers are to be
started, and tells a handler when it is no longer wanted.
"""

import itertools

import trio


class LeaderFollowers:
    """Handlers by number, from 0."""

    def __init__(self) -> None:
        self._wanted: set[int] = set()
        self._running: set[int] = set()
        self._leader: int | None = None
        self._followers = trio.lowlevel.ParkingLot()

    def resize(self, size: int) -> list[int]:
        """Makes it `size` handlers; the numbers of those to start. Of more than that, the highest go
        that do not lead: at once if they are parked, else when they would wait again.
        """
        surplus = sorted(self._wanted - {self._leader}, reverse=True)[: max(len(self._wanted) - size, 0)]
        self.dismiss(set(surplus))
        missing = size - len(self._wanted)
        new = list(itertools.islice((n for n in itertools.count() if n not in self._wanted), max(missing, 0)))
        self._wanted.update(new)
        to_start = [number for number in new if number not in self._running]  # who has not gone yet stays
        self._running.update(to_start)
        return to_start

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """None: all of them."""
        self._wanted -= set(self._wanted) if numbers is None else numbers
        self._followers.unpark_all()

    async def take_the_lead(self, number: int) -> bool:
        """Waits until it is this handler's turn to lead; False, and it must end, once it is not wanted."""
        while number in self._wanted:
            if self._leader is None:
                self._leader = number
                return True
            await self._followers.park()
        if self._leader is None:
            self._followers.unpark()  # it may have been woken to lead
        self._running.discard(number)
        return False

    def promote_follower(self) -> None:
        """Whoever leads must wait for something else."""
        self._leader = None
        self._followers.unpark()
