"""Delays for error responses that a client provokes repeatedly without a backoff. (AutoMQ:
RetryStormBackoffPolicy, RetryStormBackoffStateStore)

One state per API, resource and connection. An error is sent at once until it repeats: errors about a missing
leader or coordinator are delayed from the second within a second on, others from the sixth. From then on
every error of the state is delayed, until no error occurs for a second after the last delayed response could
be sent. Called by `api.requests.retry_storm`. Independent of clocks and messages.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from broker.common.errors import ErrorCode
from broker.protocol.api_key import ApiKey

WINDOW_MS: Final = 1_000
QUIET_MS: Final = 1_000
TRANSIENT_ERRORS: Final = 1
OTHER_ERRORS: Final = 5
"""Errors within the window that are sent without a delay."""

MAX_STATES: Final = 100_000
STATE_EXPIRY_MS: Final = 11_000
"""A state is removed if unused for this time: the quiet time and the longest delay."""

_LEADER: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.FENCED_LEADER_EPOCH}
)
_COORDINATOR: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

TRANSIENT: Final[dict[int, frozenset[ErrorCode]]] = {
    **dict.fromkeys(
        (
            ApiKey.PRODUCE,
            ApiKey.FETCH,
            ApiKey.LIST_OFFSETS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.METADATA,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ),
        _LEADER,
    ),
    **dict.fromkeys(
        (
            ApiKey.FIND_COORDINATOR,
            ApiKey.JOIN_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.LEAVE_GROUP,
            ApiKey.INIT_PRODUCER_ID,
        ),
        _COORDINATOR,
    ),
}
"""The APIs with a backoff, and the transient errors of each. AutoMQ also lists the transaction APIs, which
are not served here.
"""

StateKey = tuple[int, str, str]
"""API key, resource and connection id."""


class Totals(msgspec.Struct):
    """Delayed responses since the start, and their total delay."""

    delayed: int = 0
    delayed_ms: int = 0


class _State(msgspec.Struct):
    is_delaying: bool = False
    failed_ms: int = 0
    last_used_ms: int = 0
    transients: list[int] = []
    others: list[int] = []

    def decide(self, now_ms: int, delay_ms: int, *, is_transient: bool) -> bool:
        """Count an error. Return whether to delay its response."""
        if self.is_delaying:
            if now_ms <= self.failed_ms + QUIET_MS:
                self.failed_ms = now_ms + delay_ms
                return True
            self.is_delaying = False
            self.transients.clear()
            self.others.clear()
        for seen in (self.transients, self.others):
            while seen and now_ms - seen[0] > WINDOW_MS:
                del seen[0]
        if len(self.others) == OTHER_ERRORS or (is_transient and len(self.transients) == TRANSIENT_ERRORS):
            self.is_delaying = True
            self.failed_ms = now_ms + delay_ms
            return True
        if is_transient:
            self.transients.append(now_ms)
        self.others.append(now_ms)
        return False


class RetryStorm:
    """The states of all connections. `max_delay_ms` is automq.retry.storm.backoff.max.delay.ms."""

    def __init__(self, max_delay_ms: int = 1_000, max_states: int = MAX_STATES) -> None:
        self.max_delay_ms = max_delay_ms
        self.totals = Totals()
        self._max_states = max_states
        self._states: OrderedDict[StateKey, _State] = OrderedDict()

    def delay_of(
        self,
        api: int,
        connection_id: str,
        errors: list[tuple[str, int]],
        now_ms: int,
        longest_ms: int | None = None,
    ) -> int:
        """Count a response that consists of `errors` (resource, code) only.

        Return the delay in milliseconds, 0 for none. `longest_ms` is the longest delay of this request.
        """
        delay_ms = self.max_delay_ms if longest_ms is None else min(self.max_delay_ms, max(longest_ms, 0))
        transient = TRANSIENT[api]
        is_delayed = False
        for resource, code in errors:
            state = self._state((api, resource, connection_id), now_ms)
            if state.decide(now_ms, delay_ms, is_transient=code in transient):
                is_delayed = True
        if not is_delayed or not delay_ms:
            return 0
        self.totals.delayed += 1
        self.totals.delayed_ms += delay_ms
        return delay_ms

    def forget(self) -> None:
        """Remove all states, since the backoff is disabled."""
        self._states.clear()

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self._states)

    def _state(self, key: StateKey, now_ms: int) -> _State:
        states = self._states
        while states:
            oldest, state = next(iter(states.items()))
            has_space = len(states) < self._max_states or key in states
            if has_space and now_ms - state.last_used_ms < STATE_EXPIRY_MS:
                break
            del states[oldest]
        found = states.get(key)
        if found is None:
            found = states[key] = _State()
        else:
            states.move_to_end(key)
        found.last_used_ms = now_ms
        return found
