"""The addresses of the host names in `max.connections.per.ip.overrides`.

Part of the connection gate. An address applies immediately; a host name is resolved in a thread, once when it
is set, and stands for all of its addresses.
"""

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

import trio

from broker.quotas.connection_rates import canonical_address

logger = logging.getLogger(__name__)

LOOKUP_SECONDS: Final = 5.0


class OverrideHosts:
    """`apply` is called with the maximum per address after every change."""

    def __init__(self, apply: Callable[[dict[str, int]], None]) -> None:
        self._apply = apply
        self._overrides: Sequence[tuple[str, int]] = ()
        self._found: dict[str, list[str]] = {}
        self._changed = trio.Event()

    def set_overrides(self, overrides: Sequence[tuple[str, int]]) -> None:
        """Set the overrides; for a host named twice the last one applies."""
        self._overrides = overrides
        self._publish()
        self._changed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Resolve host names until cancelled. Reports started once the initial names are resolved."""
        await self._look_up_all()
        task_status.started()
        while True:
            await self._changed.wait()
            await self._look_up_all()

    async def _look_up_all(self) -> None:
        self._changed = trio.Event()
        for host, _ in self._overrides:
            if _as_address(host) is None:
                self._found[host] = await _look_up(host)
        self._publish()

    def _publish(self) -> None:
        maximum: dict[str, int] = {}
        for host, most in self._overrides:
            address = _as_address(host)
            for each in self._found.get(host, ()) if address is None else (address,):
                maximum[each] = most
        self._apply(maximum)


def _as_address(host: str) -> str | None:
    try:
        return canonical_address(host)
    except ValueError:
        return None


async def _look_up(host: str) -> list[str]:
    try:
        with trio.fail_after(LOOKUP_SECONDS):
            found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, trio.TooSlowError) as error:
        logger.warning(
            "cannot resolve a host of max.connections.per.ip.overrides",
            extra={"host": host, "reason": str(error)},
        )
        return []
    return [canonical_address(str(address[0])) for *_, address in found]
