"""Where the clients of a gateway that is drained find the upstream nodes: the addresses of the live gateways.

Those of `gateway.drain.to` where something accepts connections; without that key, those of the gateways that
share limits, which report them once a second. Nodes are spread over the gateways, so each of these gets a
part of every client's connections.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import trio

from broker.config.listeners import Address
from broker.config.sections.gateway import NodeAddresses
from broker.gateway.sharing.summary import ListenerNodes, Summary

ANSWERS_WITHIN_S: Final = 1.5
"""How long an address of gateway.drain.to has to accept a connection; ours. The kernel sends the first packet
again after a second, if it was lost or the backlog was full.
"""

SILENT: Final = 3
"""Looks after which one that has accepted a connection before, and now answers nothing, counts as gone; ours.
A gateway that thousands of clients connect to may not have a place in its backlog in time.
"""


class Elsewhere:
    """`configured` returns gateway.drain.to of a listener, `others` the last summaries of the other gateways
    that are there, in any order. `offset` differs between gateways, so that two that drain prefer different
    ones. `is_own` says whether a port of this machine is one of this gateway, which accepts connections while
    it drains.
    """

    def __init__(
        self,
        configured: Callable[[str], Sequence[NodeAddresses]],
        others: Callable[[], Iterable[Summary]],
        offset: int,
        is_own: Callable[[int], bool],
    ) -> None:
        self._is_own = is_own
        self._configured = configured
        self._others = others
        self._offset = offset
        self._known: dict[str, tuple[NodeAddresses, ...]] = {}
        self._silent: Counter[tuple[str, NodeAddresses]] = Counter()

    @property
    def is_known(self) -> bool:
        """Whether clients of any listener have somewhere to go."""
        return bool(self._known)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses for all listeners, as texts."""
        return tuple(dict.fromkeys(str(each) for known in self._known.values() for each in known))

    async def look(self, listeners: Iterable[ListenerNodes], node_ids: Sequence[int]) -> bool:
        """Find the addresses for the listeners of this gateway and the present nodes, in ANSWERS_WITHIN_S for
        each listener at most. Returns whether they have changed. If cancelled, changes none of them.
        """
        found: dict[str, tuple[NodeAddresses, ...]] = {}
        for own in listeners:
            configured = self._configured(own.listener)
            known = await self._accepting(own, configured, node_ids) if configured else self._of_others(own)
            if known:
                found[own.listener] = known
        has_changed = found != self._known
        self._known = found
        return has_changed

    def address(self, listener: str, node_id: int) -> Address | None:
        """Return where clients of a listener find a node; None if no other gateway has an address for it."""
        known = self._known.get(listener, ())
        for number in range(len(known)):
            address = known[(node_id + self._offset + number) % len(known)].of(node_id)
            if address is not None:
                return address
        return None

    def _of_others(self, own: ListenerNodes) -> tuple[NodeAddresses, ...]:
        """Return the addresses at gateways that have the same listener, in the same order at each call.

        Those of this gateway come with no others. Processes of one gateway have the same, and drain together,
        which their next summaries say. A balancer in front of all gateways is at the only one that they have.
        """
        live = sorted((each for each in self._others() if not each.draining), key=lambda each: each.gateway)
        found = dict.fromkeys(
            nodes.addresses
            for each in live
            for nodes in each.nodes
            if (nodes.listener, nodes.protocol) == (own.listener, own.protocol)
        )
        return tuple(each for each in found if each != own.addresses) or tuple(found)

    async def _accepting(
        self, own: ListenerNodes, addresses: Sequence[NodeAddresses], node_ids: Sequence[int]
    ) -> tuple[NodeAddresses, ...]:
        """Return those where a node's address accepts a connection."""
        before = self._known.get(own.listener, ())
        accepting: set[NodeAddresses] = set()

        async def ask(each: NodeAddresses) -> None:
            address = next(filter(None, map(each.of, node_ids)), None)
            if address is None:
                return
            with trio.move_on_after(ANSWERS_WITHIN_S) as waited:
                try:
                    async with await trio.open_tcp_stream(address.host, address.port) as stream:
                        if self._leads_here(stream):
                            return
                except (OSError, UnicodeError):  # the latter for what cannot be a host's name
                    return
                accepting.add(each)
            key = own.listener, each
            self._silent[key] = self._silent[key] + 1 if waited.cancelled_caught else 0
            if each in before and self._silent[key] < SILENT:
                accepting.add(each)

        async with trio.open_nursery() as nursery:
            for each in addresses:
                nursery.start_soon(ask, each)
        return tuple(each for each in addresses if each in accepting)

    def _leads_here(self, stream: trio.SocketStream) -> bool:
        """Return whether a connection is one to this gateway."""
        host, port = stream.socket.getpeername()[:2]
        return bool(host == stream.socket.getsockname()[0]) and self._is_own(port)
