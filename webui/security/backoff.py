"""How long an address, or a name, must wait before its next try at signing in.

Part of webui.security.doorkeeper and webui.security.passwords. Five wrong guesses are free, then each doubles
the wait from one second to one minute; a success or a quarter of an hour of silence forgets them. The same
wrong token again is no guess: a scraper with an old token must not lock the operator out who sits behind the
same address. Pure: the caller brings the time.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv6Address, ip_address
from typing import Final

FREE_GUESSES: Final = 5
FIRST_WAIT_MS: Final = 1_000
LONGEST_WAIT_MS: Final = 60_000
FORGET_AFTER_MS: Final = 900_000
MOST_ADDRESSES: Final = 4_096
MOST_REMEMBERED: Final = 8


@dataclass(slots=True)
class Offender:
    """`recent` are hashes of the last wrong tokens."""

    guesses: int = 0
    last_ms: int = 0
    recent: list[bytes] = field(default_factory=list)


class Backoff:
    """A table of the most recent offenders, bounded: the one that has been silent longest is dropped."""

    __slots__ = ("_offenders",)

    def __init__(self) -> None:
        self._offenders: OrderedDict[str, Offender] = OrderedDict()

    def wait_ms(self, address: str, now_ms: int) -> int:
        """0: may try now."""
        offender = self._offenders.get(_whose(address))
        if offender is None or offender.guesses < FREE_GUESSES:
            return 0
        if now_ms - offender.last_ms >= FORGET_AFTER_MS:
            return 0
        wait_ms = min(FIRST_WAIT_MS << min(offender.guesses - FREE_GUESSES, 16), LONGEST_WAIT_MS)
        return max(0, offender.last_ms + wait_ms - now_ms)

    def failed(self, address: str, guess: str | None, now_ms: int) -> None:
        """`guess` None: one that counts however often it is made."""
        key = _whose(address)
        offender = self._offenders.get(key)
        if offender is None or now_ms - offender.last_ms >= FORGET_AFTER_MS:
            offender = self._offenders[key] = Offender()
        if guess is not None:
            hashed = sha256(guess.encode("utf-8", "surrogatepass")).digest()
            if hashed in offender.recent:
                return
            offender.recent = [*offender.recent[1 - MOST_REMEMBERED :], hashed]
        offender.guesses += 1
        offender.last_ms = now_ms
        self._offenders.move_to_end(key)
        if len(self._offenders) > MOST_ADDRESSES:
            self._offenders.popitem(last=False)

    def succeeded(self, address: str) -> None:
        self._offenders.pop(_whose(address), None)


def _whose(address: str) -> str:
    """An IPv6 host owns its whole /64, so that is what is counted."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return parsed.packed[:8].hex()
    return address
