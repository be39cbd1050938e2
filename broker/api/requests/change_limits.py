"""Requests that change many resources: read, limited, applied as one command, answered for each resource.

Called by the handlers of topics, configs, quotas, SCRAM credentials and ACLs. The controller mutation quota
counts partitions created and deleted, by Metadata, FindCoordinator and StreamsGroupHeartbeat too: each
topic's partitions are charged at once, after all other checks of the topic and before a metadata record is
written. (Kafka: QuorumController, MAX_RECORDS_PER_USER_OP; KIP-599)
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar

from broker.api.requests.context import RequestContext
from broker.api.requests.outcome import Outcome, Response, outcome_of
from broker.api.requests.pacing import consumed, mapped
from broker.common.clock import Clock
from broker.common.errors import ErrorCode
from broker.common.slices import Slices
from broker.controller.commands import Actor, Charge, Command
from broker.controller.control import Control
from broker.protocol.schema import Struct
from broker.quotas.mutation import MutationQuota, MutationQuotaManager
from broker.quotas.throttled import Throttle

Entry = TypeVar("Entry")
Part = TypeVar("Part")
Result = TypeVar("Result")

MAX_ELEMENTS: Final = 10_000
"""Entries of a request and their parts together; equals Kafka's limit of records for one request."""

MAX_PARTS: Final = 1_000
"""Parts of one entry, such as the configs of a topic; our own limit, larger than the number of configs."""

FREED_AT_ONCE: Final = 128
"""Entries of a command freed in a slice; ours. SCRAM credentials have up to 2,048 bytes each."""

TOO_MANY: Final = "Unable to perform excessively large batch operation."


def entries_of(
    entries: Collection[Entry],
    read: Callable[[Entry], Part],
    parts: Callable[[Entry], int] = lambda _entry: 0,
) -> Slices[list[Part] | None]:
    """Return `read` of every entry, or None if the request exceeds the limits.

    The caller then responds with `refused`.
    """
    if len(entries) > MAX_ELEMENTS:
        return None
    made: list[Part] = []
    total = 0
    for entry in entries:
        count = parts(entry)
        total += 1 + count
        if total > MAX_ELEMENTS or count > MAX_PARTS:
            return None
        made.append(read(entry))
        yield None
    return made


def divided(
    entries: list[Part], name: Callable[[Part], str], is_allowed: Callable[[str], bool]
) -> Slices[tuple[list[Part], list[str]]]:
    """Return the entries that the client may change, and the distinct names of the others."""
    allowed: list[Part] = []
    denied: dict[str, None] = {}
    for entry in entries:
        yield None
        named = name(entry)
        if named in denied:
            continue
        if is_allowed(named):
            allowed.append(entry)
        else:
            denied[named] = None
    return allowed, list(denied)


async def applied(
    make: Callable[[tuple[Part, ...]], Command[list[Result]]],
    entries: list[Part],
    actor: Actor,
    control: Control,
    result: Callable[[Result], Any],
    reply: Callable[[list[Any]], Any],
    denied: Sequence[Result] = (),
    mutations: "Mutations | None" = None,
) -> Outcome:
    """Apply the command of `entries`, and return the response with the result of each outcome and of those
    that are `denied`. No argument may reference the request's message, which is freed meanwhile. Raises
    ApiError.
    """
    command = make(tuple(entries))
    outcomes = await control.apply(command, actor)
    del command
    outcomes += denied
    return outcome_of(_response(entries, outcomes, result, reply, mutations))


def _response(
    entries: list[Part],
    outcomes: list[Result],
    result: Callable[[Result], Any],
    reply: Callable[[list[Any]], Any],
    mutations: "Mutations | None",
) -> Slices[Outcome]:
    response = reply((yield from results_of(result, outcomes, entries)))
    throttle = None if mutations is None else mutations.throttle()
    if throttle is not None:
        response.throttle_time_ms = throttle.throttle_ms
    return Response(response, throttle)


def results_of(
    result: Callable[[Part], Any], outcomes: list[Part], entries: list[Entry]
) -> Slices[list[Any]]:
    """Free the entries of a command that was applied, and return the result of each outcome, in order. Both
    lists are empty then, so that neither is freed at once.
    """
    for number, _ in enumerate(consumed(entries, FREED_AT_ONCE)):
        if number:
            yield None
    results: list[Any] = []
    for piece in consumed(outcomes, FREED_AT_ONCE):
        for outcome in piece:
            results.append(result(outcome))
            yield None
    return results


def refused(
    entries: Iterable[Entry],
    result: Callable[[Entry, ErrorCode, str], Any],
    reply: Callable[[list[Any]], Struct],
) -> Slices[Outcome]:
    """Build the response with POLICY_VIOLATION for every entry."""
    results = yield from mapped(lambda entry: result(entry, ErrorCode.POLICY_VIOLATION, TOO_MANY), entries)
    return Response(reply(results))


class Mutations:
    """The mutation quota of one request."""

    __slots__ = ("_clock", "_quota")

    def __init__(self, quota: MutationQuota, clock: Clock) -> None:
        self._quota = quota
        self._clock = clock

    @property
    def is_limited(self) -> bool:
        """Whether the client has a quota."""
        return self._quota.is_limited

    def charge(self, partitions: int) -> None:
        self._quota.record(partitions, self._clock.ms())

    def charge_for(self, partitions: int) -> int:
        """Charge, and return the partitions that were charged: none if there is no limit. Raises ApiError."""
        return partitions if self._quota.record(partitions, self._clock.ms()) else 0

    def correct(self, partitions: int) -> None:
        """Charge more, or fewer if negative, now that the number of changes is known."""
        self._quota.correct(partitions, self._clock.ms())

    def throttle(self) -> Throttle | None:
        """Return the remaining throttle; the request's own processing time counts towards it."""
        return self._quota.throttle(self._clock.ms())


class ControllerMutations:
    """The mutation quotas of all clients."""

    def __init__(self, manager: MutationQuotaManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock

    def of(self, context: RequestContext, strict_from: int) -> Mutations:
        """Return the quota of a request.

        From version `strict_from`, a client that has exhausted its quota is refused; older versions are
        served and throttled.
        """
        quota = self._manager.quota_for(
            context.connection.principal,
            context.client_id,
            self._clock.ms(),
            strict=context.api_version >= strict_from,
        )
        return Mutations(quota, self._clock)

    def automatic_charge(self, context: RequestContext) -> Charge:
        """Return the charge for auto-created topics, which is never refused and throttles afterwards."""
        return self.of(context, strict_from=context.api_version + 1).charge

    def refusing_charge(self, context: RequestContext) -> Charge:
        """Return the charge for the internal topics of a Streams application, which are refused while the
        client has exhausted its quota, as in Kafka.
        """
        return self.of(context, strict_from=0).charge
