"""The state that all connections of one processor of the gateway share: buffers, limits, quotas, and its
reactor.

The processor creates it; `client_receive` and `upstream_receive` use it for every frame.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from broker.api.requests.byte_quotas import record_fetch, record_produce
from broker.gateway.channel import ChannelQuotas
from broker.gateway.kept_responses import KeptResponses
from broker.gateway.own_topics import OwnTopics
from broker.gateway.routes import ForwardedRequest
from broker.gateway.splice import PipePool
from broker.network.clock import TrioClock
from broker.network.selector import Selector
from broker.network.throttling import Throttling
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.throttled import Throttle

if TYPE_CHECKING:
    from broker.gateway.draining.moves import Moves
    from broker.gateway.processor import GatewayProcessor, GatewayResponder
    from broker.gateway.upstream_receive import UpstreamReceive

SCRATCH_BYTES: Final = 128 * 1024
"""The buffer that every read of a processor uses: most requests and responses pass through it whole."""

SMALL_BYTES: Final = 16 * 1024
"""A frame of up to this size is forwarded when it is whole; the bytes of a larger one as they arrive. Ours.
"""

USUAL_BYTES: Final = 1024
"""The beginning of the buffer with a usual request or response has fewer bytes; ours."""

COPIES: Final = 8
"""Reads of one large frame before other connections have their turn, where it is copied; ours."""


@dataclass(frozen=True, slots=True)
class ForwardLimits:
    """`max_in_flight` is gateway.max.in.flight.requests.per.connection, `splice_min_bytes` is
    gateway.splice.min.bytes, 0 for never.
    """

    max_in_flight: int
    splice_min_bytes: int


class Forwarder:
    """`scratch` is valid within one call. The `charge_...` methods charge the quotas of the channel that they
    are given: those of the gateway, or with quota.scope=broker those of its upstream node. `quotas` says
    whether any quota is active. `processor` and `responder` take the steps that need more than one
    connection. `kept` remembers rewritten responses, `own` knows the gateways' topics.
    """

    def __init__(
        self,
        limits: ForwardLimits,
        clock: TrioClock,
        selector: Selector,
        quotas: ClientQuotas,
        throttling: Throttling,
        kept: KeptResponses,
        own: OwnTopics,
        processor: "GatewayProcessor",
        responder: "GatewayResponder",
    ) -> None:
        self.limits = limits
        self.max_in_flight = limits.max_in_flight
        self.clock = clock
        self.ns = clock.ns
        self.selector = selector
        self.processor = processor
        self.responder = responder
        self.quotas = quotas
        self.kept = kept
        self.own = own
        self.upstreams: dict[int, UpstreamReceive] = {}
        """The open upstream connections by descriptor; they add and remove themselves."""
        self.pipes = PipePool()
        self.buffer = bytearray(SCRATCH_BYTES)
        self.scratch = memoryview(self.buffer)
        self._beginnings: list[memoryview | None] = [None] * USUAL_BYTES
        self.moves: Moves | None = None
        """Set while the gateway tells its clients the addresses of others."""
        self.request_quota_active = False
        """Whether a request quota exists."""
        self._throttling = throttling

    def beginning(self, count: int) -> memoryview:
        """Return the first `count` bytes of `scratch`. Usual views of it are made once."""
        if count >= USUAL_BYTES:
            return self.scratch[:count]
        view = self._beginnings[count]
        if view is None:
            view = self._beginnings[count] = self.scratch[:count]
        return view

    def splices(self, left: int) -> bool:
        """Return whether to move the rest of a frame inside the kernel, if both sides are plain sockets."""
        return left >= (self.limits.splice_min_bytes or left + 1)

    def charge_produce(self, request: ForwardedRequest, quotas: ChannelQuotas, now: int) -> None:
        """Charge a Produce, and throttle its connection if it exceeds a quota. Call only if
        `quotas.produce_active`.
        """
        request.now_ms = now // 1_000_000 + self.clock.base_ms
        self._throttle(request, record_produce(quotas, request))

    def charge_fetch(self, request: ForwardedRequest, quotas: ChannelQuotas, size: int, now: int) -> None:
        """Charge the response of a Fetch, of `size` bytes, and throttle its connection if it exceeds a quota;
        the response is delivered, as its records have arrived. Call only if `quotas.fetch_active`.
        """
        now_ms = now // 1_000_000 + self.clock.base_ms
        self._throttle(request, record_fetch(quotas, request, size, now_ms, is_slow=False))

    def charge_request(self, request: ForwardedRequest, quotas: ChannelQuotas, now: int) -> int:
        """Charge the thread's time that the connection has taken since it was last charged, and throttle the
        connection if it exceeds its request quota. Return the request's throttle time in ms. Call only if
        `request_quota_active`.
        """
        channel = request.channel
        spent, channel.network_ns = channel.network_ns, 0
        channel.request_ns += spent
        now_ms = now // 1_000_000 + self.clock.base_ms
        throttle = quotas.request.record_handled(channel.principal, request.client_id, spent, now_ms)
        self._throttle(request, throttle)
        return request.throttle_ms

    def _throttle(self, request: ForwardedRequest, throttle: Throttle | None) -> None:
        if throttle is not None:
            request.throttle_ms = max(request.throttle_ms, throttle.throttle_ms)
            is_reported = request.has_response and request.route.throttle_at is not None
            self._throttling.start(request, throttle, is_reported=is_reported)
