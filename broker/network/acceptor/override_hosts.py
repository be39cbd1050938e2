"""The addresses of the host names in `max.connections.per.ip.overrides`.

Part of the connection gate. An address applies immediately, or a few milliseconds later if there are many; a
host name is resolved in a thread, once when it is set, and stands for all of its addresses.
"""

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final

import trio

from broker.common.slices import Steps, advance, run_through
from broker.quotas.connection_rates import canonical_address

logger = logging.getLogger(__name__)

LOOKUP_SECONDS: Final = 5.0


AT_ONCE: Final = 64
"""Overrides converted between two checkpoints, at up to ten microseconds each; so many apply immediately."""


class OverrideHosts:
    """`apply` is called with the maximum per counted address after every change. `counted` returns the
    counted address of an address.
    """

    def __init__(self, apply: Callable[[dict[str, int]], None], counted: Callable[[str], str]) -> None:
        self._apply = apply
        self._counted = counted
        self._overrides: Sequence[tuple[str, int]] = ()
        self._found: dict[str, list[str]] = {}
        self._changed = trio.Event()

    def set_overrides(self, overrides: Sequence[tuple[str, int]]) -> None:
        """Set the overrides; for a host named twice the last one applies."""
        self._overrides = overrides
        if len(overrides) <= AT_ONCE:
            self._apply(run_through(self._maximum()))
        self._changed.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Resolve host names until cancelled. Reports started once the initial names are resolved."""
        await self._look_up_all()
        task_status.started()
        while True:
            await self._changed.wait()
            await self._look_up_all()

    async def _look_up_all(self) -> None:
        self._changed = changed = trio.Event()
        names: list[str] = []
        await self._publish(changed, names)
        for host in names:
            self._found[host] = await _look_up(host)
        if names:
            await self._publish(changed, [])

    async def _publish(self, changed: trio.Event, names: list[str]) -> None:
        """Apply the overrides, unless they change meanwhile, and add the host names to `names`."""
        steps = self._maximum(names)
        while True:
            try:
                advance(steps)
            except StopIteration as end:
                self._apply(end.value)
                return
            await trio.lowlevel.checkpoint()
            if changed.is_set():
                return

    def _maximum(self, names: list[str] | None = None) -> Steps[dict[str, int]]:
        """Return the maximum per counted address, and add the host names to `names`."""
        maximum: dict[str, int] = {}
        for host, most in self._overrides:
            address = _as_address(host)
            if address is None and names is not None:
                names.append(host)
            for each in self._found.get(host, ()) if address is None else (address,):
                maximum[self._counted(each)] = most
            yield
        return maximum


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
