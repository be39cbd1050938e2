"""The leader/followers pattern for handler tasks: the leader waits for requests, the followers are parked.

Used only by `handler_pool`, outside the request path. Starts no tasks: returns the numbers of handlers to
start, and says when a handler ends.
"""

import trio


class LeaderFollowers:
    """Handlers by number, from 0."""

    def __init__(self) -> None:
        self._wanted: set[int] = set()
        self._running: set[int] = set()
        self._leader: int | None = None
        self._followers = trio.lowlevel.ParkingLot()

    def resize(self, size: int) -> list[int]:
        """Set the number of handlers and return the numbers of those to start. Removes the highest numbers
        first, but never the leader: parked handlers at once, the others before they would wait again.
        """
        surplus = sorted(self._wanted - {self._leader}, reverse=True)[: max(len(self._wanted) - size, 0)]
        self.dismiss(set(surplus))
        new: list[int] = []
        number = 0
        while len(self._wanted) < size:
            if number not in self._wanted:
                self._wanted.add(number)
                new.append(number)
            number += 1
        to_start = [number for number in new if number not in self._running]  # a handler not yet ended stays
        self._running.update(to_start)
        return to_start

    def dismiss(self, numbers: set[int] | None = None) -> None:
        """Remove handlers; None removes all."""
        self._wanted -= set(self._wanted) if numbers is None else numbers
        self._followers.unpark_all()

    async def take_the_lead(self, number: int) -> bool:
        """Wait until this handler becomes the leader. Returns False once removed; the handler must
        then end.
        """
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
        """Pass the lead on; the leader is about to wait for something other than a request."""
        self._leader = None
        self._followers.unpark()
