"""The requests of the console to the upstream cluster, with the gateway's own credential.

They have a lane of their own, never more than `gateway.upstream.views.requests.per.second`, and a few at a
time: a node that does not answer holds back neither clients nor the other lanes.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

import trio

from broker.common.errors import ApiError, ErrorCode
from broker.common.slice_runner import run_slices
from broker.common.slices import Steps
from broker.gateway.contents.refusals import Notes
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.pace import Pace
from broker.protocol.dismantle import dismantle

Result = TypeVar("Result")

TakeOf = Callable[[int], Callable[[Any], Steps[Any]]]
"""Returns what takes the response of a node, in steps."""

LANE: Final = "views"
CHANGES: Final = "changes"
AT_ONCE: Final = 8
"""Requests that wait for their responses; ours."""

AT_ONCE_OF_NODE: Final = 3
"""Those of one node, and those of any node; ours. A node answers one after the other, and one that answers
nothing leaves room for the others.
"""

OF_NODE: Final = frozenset({Reason.REFUSED, Reason.TIMEOUT})
"""Failures that the next request to the node would wait for, too."""

TIMEOUT_MS: Final = 10_000
"""How long a node may take; ours, far below what a client waits for."""


def unavailable(error: UpstreamError) -> ApiError:
    """Return the error for a person who waits."""
    return ApiError(ErrorCode.BROKER_NOT_AVAILABLE, str(error))


class Asking:
    """`nodes` returns the ids of the present nodes, `controller` that of a node that takes changes, None if
    none is known; `may_ask` is whether the cluster is the expected one.
    """

    def __init__(
        self,
        client: UpstreamClient,
        nodes: Callable[[], Collection[int]],
        controller: Callable[[], int | None],
        may_ask: Callable[[], bool],
        rate: int,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._controller = controller
        self._may_ask = may_ask
        self._pace = Pace(rate)
        self._slots = trio.CapacityLimiter(AT_ONCE)
        self._node_slots: dict[int | None, trio.CapacityLimiter] = {}
        self._failed: dict[int, tuple[float, UpstreamError]] = {}
        self._timeout_ms = min(timeout_ms, TIMEOUT_MS)

    async def ask(
        self,
        node_id: int | None,
        message: Any,
        *,
        at_least: int = 0,
        at_most: int | None = None,
        lane: str = LANE,
    ) -> Any:
        """Return the response of a node, or with None of any node, in the newest version that both know, from
        `at_least` up to `at_most`. Raises UpstreamError, at once if the node has failed while the request
        waited its turn; VERSION if there is no such version.
        """
        if not self._may_ask():
            raise UpstreamError(Reason.NODE, "The upstream cluster has not answered, or is another one.")
        asked_at = trio.current_time()
        async with self._slots_of(node_id), self._slots:
            self._check_answers(node_id, asked_at)
            await self._pace.turn()
            self._check_answers(node_id, asked_at)
            try:
                return await self._client.request(
                    node_id,
                    message,
                    at_least=at_least,
                    at_most=at_most,
                    lane=lane,
                    timeout_ms=self._timeout_ms,
                )
            except UpstreamError as error:
                if node_id is not None and error.reason in OF_NODE:
                    self._failed[node_id] = trio.current_time(), error.again()
                raise

    def _slots_of(self, node_id: int | None) -> trio.CapacityLimiter:
        slots = self._node_slots.get(node_id)
        if slots is None:
            self._forget_nodes()
            slots = self._node_slots[node_id] = trio.CapacityLimiter(AT_ONCE_OF_NODE)
        return slots

    def _forget_nodes(self) -> None:
        """Forget nodes that are gone, and of which nothing is asked."""
        present = self._nodes()
        for node_id, slots in list(self._node_slots.items()):
            if node_id is not None and node_id not in present and not slots.borrowed_tokens:
                del self._node_slots[node_id]
                self._failed.pop(node_id, None)

    def _check_answers(self, node_id: int | None, asked_at: float) -> None:
        """Raise UpstreamError if the node has failed since: many requests would each wait for their end."""
        failed = None if node_id is None else self._failed.get(node_id)
        if failed is not None and failed[0] > asked_at:
            raise failed[1].again()

    async def change(
        self, node_id: int | None, message: Any, *, at_most: int | None = None, lane: str = CHANGES
    ) -> Any:
        """As `ask`, for a change: a cancelled task waits for the response, so that the audit trail can tell.
        Raises ApiError; of a change whose response does not come, nobody knows whether it was made.
        """
        try:
            with trio.CancelScope(shield=True):
                return await self.ask(node_id, message, at_most=at_most, lane=lane)
        except UpstreamError as error:
            raise unavailable(error) from error
        raise AssertionError("unreachable: this scope is never cancelled")

    async def change_at_controller(self, message: Any) -> Any:
        """As `change`, at the controller: brokers of a cluster with ZooKeeper do not pass changes on."""
        return await self.change(self._controller(), message)

    async def take(
        self,
        node_id: int | None,
        message: Any,
        take: Callable[[Any], Steps[Result]],
        *,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> Result:
        """Return what `take` makes of a response, which can be large: it is read and freed in slices. Raises
        what `ask` and `take` raise.
        """
        response = await self.ask(node_id, message, at_least=at_least, at_most=at_most)
        try:
            return await run_slices(take(response))
        finally:
            freeing = dismantle(response)
            del response
            with trio.CancelScope(shield=True):
                await run_slices(freeing)

    async def take_each(self, messages: Mapping[int, Any], take_of: TakeOf, notes: Notes) -> int:
        """Take the response of each node to its message, and return how many came. Notes the nodes that
        fail.
        """
        taken = 0

        async def one(node_id: int, message: Any) -> None:
            nonlocal taken
            try:
                await self.take(node_id, message, take_of(node_id))
            except UpstreamError as error:
                notes.failed(error)
            else:
                taken += 1

        async with trio.open_nursery() as nursery:
            for node_id, message in messages.items():
                nursery.start_soon(one, node_id, message)
        return taken

    async def take_all(self, message: Any, take_of: TakeOf, notes: Notes) -> None:
        """Take the response of each node, and note whether all listed what they have. Raises UpstreamError if
        no node answers.
        """
        nodes = self._nodes()
        taken = await self.take_each(dict.fromkeys(nodes, message), take_of, notes)
        if taken < len(nodes):
            notes.lists_all = False
        if not taken:
            raise UpstreamError(Reason.NODE, "; ".join(notes.errors) or "no upstream node is known")
