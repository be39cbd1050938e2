"""The reactor of the gateway: clients' sockets and their upstream sockets in one epoll.

Inherits the turn from Kafka's processor. A client's frames are forwarded while they are read, so that only
requests that the gateway answers itself reach `_admit` and the handlers. A task of its own opens each
upstream connection, with TLS handshake and login; the client is muted meanwhile.
"""

import logging
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, cast

import trio

from broker.common.errors import ProtocolViolation
from broker.common.slices import Steps, advance
from broker.config.listeners import Address
from broker.gateway.api_versions import intersect
from broker.gateway.channel import BLOCKED, DRAINING, LAST, GatewayChannel, LocalRequest, UpstreamState
from broker.gateway.client_racks import ClientRacks
from broker.gateway.client_receive import ClientReceive
from broker.gateway.draining.moves import Moves
from broker.gateway.forwarder import Forwarder, ForwardLimits
from broker.gateway.internal_topics import InternalMarks, description_beginning, marked_description
from broker.gateway.kept_responses import KEPT_RESPONSE_BYTES, KeptResponses
from broker.gateway.logins import ForwardedLogins
from broker.gateway.node_scope import QuotasByNode
from broker.gateway.own_topics import OwnTopics
from broker.gateway.renewals import Renewals, UpstreamTalk
from broker.gateway.responses import metadata_beginning, rewritten
from broker.gateway.routes import LOST, SASL, ForwardedRequest, ForwardRoutes
from broker.gateway.upstream.connect import UpstreamSocket
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.login import LoginRenewal
from broker.gateway.upstream_receive import ForwardedSend, UpstreamReceive
from broker.network.connection.channel import Channel, MuteEvent, MuteState, bytes_waiting, has_ended
from broker.network.connection.read_ahead_channel import ENDED, THROTTLED
from broker.network.connection.receive import EndOfStream, Frame, Receive
from broker.network.failures import FailedStep
from broker.network.processor import BUFFERED, Accepted, Processor, ProcessorServices, ProcessorSettings
from broker.network.requests.request_time import RequestTime
from broker.network.requests.routes import CachedResponse, Route
from broker.network.responder import NOT_MUTED, Responder
from broker.network.selector import READ, WRITE, Ending
from broker.network.supervisor import TaskStarter
from broker.network.throttling import Throttling
from broker.protocol.api_key import ApiKey
from broker.protocol.client_id import client_id_and_body
from broker.protocol.codec import decode_request
from broker.protocol.messages.api_versions import ApiVersionsRequest
from broker.quotas.client_quotas import ClientQuotas

INT: Final = struct.Struct(">i")

POLLS_END_S: Final = 0.5
"""How long a drain waits for Fetches without records, as long as most wait upstream (fetch.max.wait.ms).
Ours. A client whose Fetch is not answered sends it again on another connection.
"""

ENDED_STREAM: Final = "closed by the peer"

NAMES_SOFTWARE: Final = 3
"""The first version of ApiVersions that names the client's software."""

KEPT_SOFTWARE: Final = 64
KEPT_SOFTWARE_BYTES: Final = 256
"""ApiVersions requests that a processor remembers, and the largest of them."""

Connect = Callable[[int | None, str], Awaitable[UpstreamSocket]]
"""Opens a connection to an upstream node, or to any node, for a client's principal. Raises UpstreamError."""


@dataclass(frozen=True, slots=True)
class ListenerForwarding:
    """The addresses that a listener's processors forward by. `node_of` returns the node of a local port, None
    for a bootstrap port; `node_of_name` that of the host name in a TLS handshake; `advertised` the address of
    a node on this listener. `missing_versions` are offered of APIs that an upstream broker does not know.
    `backoff_seconds` is how long the connection of a client stays open after its node, or with None every
    node, could not be reached. `by_node` is set with quota.scope=broker.
    """

    limits: ForwardLimits
    routes: ForwardRoutes
    quotas: ClientQuotas
    throttling: Throttling
    connect: Connect
    renewal: LoginRenewal
    node_of: Callable[[int], int | None]
    node_of_name: Callable[[str], int | None]
    advertised: Callable[[int], Address | None]
    addresses_version: Callable[[], int]
    local_versions: Callable[[], dict[int, tuple[int, int]]]
    missing_versions: Mapping[int, tuple[int, int]]
    backoff_seconds: Callable[[int | None, UpstreamError], float]
    by_node: QuotasByNode | None
    own_topics: OwnTopics
    racks: ClientRacks


class GatewayResponder(Responder):
    """Writes the responses of requests that are answered here, and what clients do not take at once.

    `polls_end` is set in a drain that waits no longer for Fetches without records and reads no more requests.
    """

    polls_end = False

    def send_cached(
        self, channel: Channel, route: Route, cached: CachedResponse, frame: bytes, received: int
    ) -> None:
        super().send_cached(channel, route, cached, frame, received)
        if channel.fd >= 0 and channel.send is None:
            self._after_unmute(channel)

    def continue_send(self, channel: Channel) -> None:
        send = channel.send
        super().continue_send(channel)
        if isinstance(send, ForwardedSend) and channel.fd >= 0:
            if channel.send is None:
                send.upstream.resume()
            elif send.is_empty:
                self._selector.set_interest(channel, channel.interest & ~WRITE)

    def resume(self, channel: GatewayChannel) -> None:
        """Read again from a client that nothing mutes any more."""
        self._after_unmute(channel)

    def _after_unmute(self, channel: Channel) -> None:
        assert isinstance(channel, GatewayChannel)
        if channel.local_request is LocalRequest.IN_HAND:
            channel.set_local(LocalRequest.NONE)
        if channel.settle_mute() is MuteState.NOT_MUTED:
            if channel.flags:
                self.close_answered(channel)
            if channel.fd >= 0:
                super()._after_unmute(channel)
            return
        self._continue(channel)
        self.close_answered(channel)

    def close_answered(self, channel: Channel) -> None:
        """In a drain, close a connection whose forwarded requests have been sent whole and answered, and from
        which nothing more has arrived: a producer without retries would lose it. So a throttled one waits for
        the end of its throttle if it has sent more. Once it reads no more requests, what has arrived is
        dropped; once `polls_end`, Fetches without records need no answer.
        """
        assert isinstance(channel, GatewayChannel)
        if channel.fd < 0 or (self.drained is None and not channel.flags & DRAINING):
            return
        if channel.client.is_within_request:
            return
        channel.set_flag(DRAINING)
        if channel.flags & BLOCKED:
            return
        drops = self.polls_end or channel.flags & LAST or channel.is_logging_in
        if not drops and bytes_waiting(channel):
            return
        if not channel.requests_in_flight or (self.polls_end and channel.only_polls):
            self.lingering.end(channel)

    def end_between_requests(self, channel: GatewayChannel) -> None:
        """Close one connection as `close_answered` does, before the others drain."""
        if channel.fd >= 0:
            channel.set_flag(DRAINING)
            self.close_answered(channel)

    def read_no_more(self, channel: GatewayChannel) -> bool:
        """Read no more requests of such a connection, so that it closes with its last response. Returns
        False, and changes nothing, within a request of which a part is upstream, or while a throttle holds
        back what it has sent.
        """
        if channel.fd >= 0:
            if channel.client.is_within_request or (channel.flags & THROTTLED and bytes_waiting(channel)):
                return False
            channel.set_flag(LAST)
            self.close_answered(channel)
        return True

    def close_unanswered(self, channel: Channel) -> None:
        """Close a connection at the end of a drain, whatever is in flight."""
        self._selector.end_channel(channel)

    def end_polls(self) -> None:
        """In a drain, wait no longer for Fetches without records, and read no more requests."""
        self.polls_end = True
        for channel in list(self._selector):
            self.close_answered(channel)

    def _after_response(self, channel: Channel) -> None:
        channel.on(MuteEvent.RESPONSE_SENT)
        self._after_unmute(channel)

    def _continue(self, channel: GatewayChannel) -> None:
        """Do what has waited for the response of a request that was answered here."""
        upstream = channel.client.upstream
        if channel.flags & ENDED and not channel.in_flight:
            reason = (upstream.loss if upstream is not None else "") or ENDED_STREAM
            self._selector.close_channel(channel, reason, ending=Ending.DISCONNECTED)
        elif channel.upstream_state is UpstreamState.RENEWAL_DUE and upstream is not None:
            upstream.check_turn()


class GatewayProcessor(Processor):
    """`forwarding` returns what its listener forwards with."""

    channel_type: ClassVar[type[Channel]] = GatewayChannel
    max_turns: ClassVar[int] = 32  # no other task has a part in forwarding

    def __init__(
        self,
        processor_id: int,
        name: str,
        settings: ProcessorSettings,
        services: ProcessorServices,
        *,
        forwarding: Callable[[str], ListenerForwarding],
    ) -> None:
        super().__init__(processor_id, name, settings, services, GatewayResponder)
        responder = self.responder
        assert isinstance(responder, GatewayResponder)
        self._forwarding = own = forwarding(self._settings.listener)
        self._tasks: TaskStarter | None = None
        self._responses = KeptResponses(own.advertised, own.addresses_version)
        self._software: dict[tuple[int, bytes], tuple[str, str]] = {}
        self._forwarder = Forwarder(
            own.limits,
            self._clock,
            self.selector,
            own.quotas,
            own.throttling,
            self._responses,
            own.own_topics,
            self,
            responder,
        )
        self._forwarded_logins = ForwardedLogins(
            self.selector, self._clock, self._logins, self._failed_logins, self._settings.max_frame
        )
        self._slice = trio.Lock()
        self._renewals = Renewals(self.name, self._clock)
        local = self._new_receive
        self._new_receive = lambda limit, sock: self._client_receive(limit, local(limit, sock))

    def measure(self, request_time: RequestTime | None) -> None:
        super().measure(request_time)
        self._forwarder.request_quota_active = request_time is not None

    def move(self, moves: Moves | None) -> None:
        """Ask `moves` from now on whether a client may have Metadata; with None nobody."""
        self._forwarder.moves = moves
        self._forwarding.routes.look_at(ApiKey.METADATA)

    def start_expiry(self, nursery: TaskStarter) -> None:
        self._tasks = nursery
        nursery.start_soon(self._renewals.reaper.run, name=self._renewals.reaper.name)
        super().start_expiry(nursery)

    async def drain(self) -> None:
        """Drain as a broker does, but for POLLS_END_S also answer what arrives before a connection has
        nothing in flight. So long only it waits for Fetches that wait for records upstream.
        """
        responder = self.responder
        assert isinstance(responder, GatewayResponder)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_call_after, POLLS_END_S, responder.end_polls)
            await super().drain()
            nursery.cancel_scope.cancel()

    def close(self) -> None:
        super().close()
        self._forwarder.pipes.close()

    def _client_receive(self, limit: int, local: Receive) -> Receive:
        self._newest = ClientReceive(limit, self._forwarder, self._forwarding.routes, local, self._frames)
        return self._newest

    def _channel(self, accepted: Accepted) -> Channel:
        channel = super()._channel(accepted)
        assert isinstance(channel, GatewayChannel)
        channel.node_id = self._forwarding.node_of(accepted.sock.getsockname()[1])
        channel.racks = self._forwarding.racks
        channel.rack = channel.racks.of(channel.address)
        self._newest.attach(channel)
        channel.know_software(channel.software_name, channel.software_version)
        if self._forwarding.by_node is None:
            channel.quotas = self._forwarding.quotas
        else:
            self._forwarding.by_node.assign(channel)
        return channel

    def _on_event(self, channel: Channel, mask: int) -> Frame | None:
        """Handle an event as a broker does, and note that a client has ended its stream while a request of
        it is answered here: the connection closes after the response.
        """
        assert isinstance(channel, GatewayChannel)
        if not self._reading and channel.mute_state is NOT_MUTED and self._reads_in_drain(channel):
            if mask == BUFFERED:
                return channel.receive.next_buffered()
            if mask & READ:
                return channel.read(channel.sock)
        is_answered_here = channel.local_request is LocalRequest.IN_HAND
        if mask & READ and is_answered_here and not channel.flags & ENDED and has_ended(channel):
            channel.set_flag(ENDED)
        return super()._on_event(channel, mask)

    def _reads_in_drain(self, channel: GatewayChannel) -> bool:
        """A request of which a part is upstream already is forwarded to its end."""
        responder = self.responder
        assert isinstance(responder, GatewayResponder)
        return not responder.polls_end or channel.client.is_within_request

    def _on_unregistered(self, fd: int, mask: int) -> None:
        """Handle an event of an upstream connection, or the wake-up."""
        upstream = self._forwarder.upstreams.get(fd)
        if upstream is None:
            super()._on_unregistered(fd, mask)
            return
        channel = upstream.channel
        if self._request_time is not None:
            self._request_time.begin()
        try:
            upstream.on_event(mask)
        except Exception as error:  # noqa: BLE001 - sorted by `_close_on_error`
            super()._close_on_error(channel, error)
        if self._request_time is not None:
            self._request_time.add_network(channel)

    def _close_on_error(self, channel: Channel, error: Exception) -> None:
        """Delay the end of a client's stream until the requests before it are answered."""
        assert isinstance(channel, GatewayChannel)
        if channel.in_flight and isinstance(error, EndOfStream | ProtocolViolation):
            if isinstance(error, ProtocolViolation):
                self.selector.log(channel, "invalid request", str(error), logging.WARNING)
            channel.set_flag(ENDED)
        else:
            super()._close_on_error(channel, error)

    def count_request(self, channel: GatewayChannel) -> None:
        """Count a request of an unauthenticated connection. Raises OverLimit."""
        self._unauthenticated.admit(channel)

    def ends_session(self, channel: GatewayChannel, api_key: int) -> bool:
        """Close a connection with a session at a request that is forwarded after its end, or within its
        renewal, as `_admit_in_session` does at one that is answered here. Returns whether it has closed.
        """
        reason = self._sessions.refusal_of(channel, api_key, self.selector.now_ms)
        if reason is None:
            return False
        self.selector.close_channel(channel, reason, logging.INFO)
        return True

    # Upstream connections

    def open_upstream(self, channel: GatewayChannel) -> None:
        """Open the upstream connection of a client, which is muted meanwhile."""
        assert self._tasks is not None
        self._tasks.start_soon(self._open, channel, name=f"{self.name}-upstream-connection")

    async def _open(self, channel: GatewayChannel) -> None:
        """Open the upstream connection of a client, or close the client's connection."""
        try:
            if channel.node_id is None and channel.server_name:
                channel.node_id = self._forwarding.node_of_name(channel.server_name)
            opened = await self._forwarding.connect(channel.node_id, channel.principal)
        except UpstreamError as error:
            await trio.sleep(self._forwarding.backoff_seconds(channel.node_id, error))
            self.selector.close_channel(channel, f"no upstream connection: {error}")
            return
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.responder.fail(channel, FailedStep.REGISTER, error)
            return
        if channel.fd < 0:
            opened.sock.close()
            return
        try:
            upstream = UpstreamReceive(opened, channel, self._forwarder)
            self._renewals.add(channel, opened.session_lifetime_ms)
            channel.upstream_address = opened.address
            if self._forwarding.by_node is not None:
                self._forwarding.by_node.assign(channel)
            channel.client.connected(upstream)
            if channel.set_upstream(UpstreamState.READY) is MuteState.NOT_MUTED:
                self._forwarder.responder.resume(channel)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            opened.sock.close()
            self.responder.fail(channel, FailedStep.REGISTER, error)

    def renew_login(self, channel: GatewayChannel) -> None:
        """Log in again on the upstream connection of a client, which is muted meanwhile."""
        assert self._tasks is not None
        self._tasks.start_soon(self._renew, channel, name=f"{self.name}-upstream-login")

    async def _renew(self, channel: GatewayChannel) -> None:
        """Log in again on the upstream connection of a client, or close the client's connection."""
        try:
            lifetime_ms = await self._log_in_again(channel)
            if channel.fd < 0:
                return
            self._renewals.add(channel, lifetime_ms)
            channel.set_upstream(UpstreamState.READY)
            channel.client.renewed()
            if channel.settle_mute() is MuteState.NOT_MUTED:
                self._forwarder.responder.resume(channel)
        except UpstreamError as error:
            self.selector.close_channel(channel, f"the gateway's upstream login has ended: {error}")
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.responder.fail(channel, FailedStep.REGISTER, error)

    async def _log_in_again(self, channel: GatewayChannel) -> int:
        """Return how long the login lasts, in ms. Raises UpstreamError."""
        own, upstream, address = self._forwarding, channel.client.upstream, channel.upstream_address
        if upstream is None or address is None or upstream.credentials is None:
            raise UpstreamError(Reason.CLOSED, LOST)
        talk = UpstreamTalk(channel, own.routes, own.renewal.client_id, self._clock)
        return await own.renewal.renew(talk, address, upstream.credentials, channel.principal)

    def rewrite_in_slices(
        self, upstream: UpstreamReceive, request: ForwardedRequest, slices: Steps[bytes]
    ) -> None:
        """Run the slices that are left of a large response, and pass it on."""
        assert self._tasks is not None
        name = f"{self.name}-rewriting"
        self._tasks.start_soon(self._finish_rewriting, upstream, request, slices, name=name)

    async def _finish_rewriting(
        self, upstream: UpstreamReceive, request: ForwardedRequest, slices: Steps[bytes]
    ) -> None:
        """Rewrite a response with a turn for others after each slice, and pass it on. Of several responses,
        one slice runs in each turn.
        """
        channel = upstream.channel
        try:
            response: bytes | None = None
            while response is None:
                async with self._slice:
                    response = self._next_slice(channel, slices)
            if channel.fd >= 0:
                upstream.rewritten(request, response)
        except ProtocolViolation as error:
            self.selector.close_channel(channel, str(error), logging.WARNING, Ending.UNEXPECTED_ERROR)
        except Exception as error:  # noqa: BLE001 - reported, and the connection is closed
            self.responder.fail(channel, FailedStep.SEND, error)

    def _next_slice(self, channel: GatewayChannel, slices: Steps[bytes]) -> bytes | None:
        """Run one slice, whose time the client is charged. Returns the response after the last one."""
        time = self._request_time
        if time is not None:
            time.begin()
        try:
            advance(slices)
        except StopIteration as end:
            response: bytes = end.value
            return response
        finally:
            if time is not None:
                time.add_network(channel)
        return None

    def observe(self, request: ForwardedRequest, frame: memoryview) -> None:
        """Note what a request says about its client, before it is sent. Raises ProtocolViolation."""
        if request.route.api_key == ApiKey.API_VERSIONS:
            self._note_software(request, frame)
        elif request.route.api_key in SASL:
            assert isinstance(request.channel, GatewayChannel)
            self._forwarded_logins.request(request.channel, frame)

    def _note_software(self, request: ForwardedRequest, frame: memoryview) -> None:
        version = request.route.version
        if version < NAMES_SOFTWARE:
            return
        channel, text = request.channel, bytes(frame[8:])
        software = self._software.get((version, text))
        if software is None:
            _, offset = client_id_and_body(frame, flexible=True)
            message = cast(ApiVersionsRequest, decode_request(ApiKey.API_VERSIONS, version)(frame, offset))
            software = message.client_software_name, message.client_software_version
            if len(text) <= KEPT_SOFTWARE_BYTES:
                if len(self._software) >= KEPT_SOFTWARE:
                    self._software.clear()
                self._software[version, text] = software
        assert isinstance(channel, GatewayChannel)
        channel.know_software(*software)

    def rewrite_beginning(
        self, request: ForwardedRequest, begun: bytearray, size: int
    ) -> tuple[bytearray, InternalMarks | None] | None:
        """Return what the beginning of a large response becomes, given its size, and what sets marks in the
        rest, if that has any; None if the rest cannot be forwarded as it arrives, or not yet. Raises
        ProtocolViolation.
        """
        route = request.route
        if route.api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return description_beginning(begun, size)
        if route.api_key == ApiKey.METADATA:
            return metadata_beginning(begun, size, route.version, self._forwarding.advertised)
        return None

    def rewrite(self, request: ForwardedRequest, frame: bytes | bytearray) -> bytes | Steps[bytes]:
        """Return a response, without its size, as the client must see it, with its size; of a large one, the
        slices that are left. Raises ProtocolViolation.
        """
        own, route = self._forwarding, request.route
        if len(frame) > KEPT_RESPONSE_BYTES and route.rewrite is not None:
            return rewritten(frame, route.api_key, route.version, own.advertised)
        if route.api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            return marked_description(frame)
        frame = bytes(frame)
        if route.api_key == ApiKey.API_VERSIONS:
            missing, version = own.missing_versions, route.version
            return self._responses.rewritten(
                lambda answer, _: intersect(
                    answer, version, own.local_versions(), missing=missing, versions_of=own.routes.versions_of
                ),
                ApiKey.API_VERSIONS,
                version,
                frame,
            )
        if route.api_key in SASL:
            return self._forwarded_logins.response(request, frame) or INT.pack(len(frame)) + frame
        assert route.rewrite is not None
        return self._responses.rewritten(route.rewrite, route.api_key, route.version, frame)


async def _call_after(seconds: float, call: Callable[[], None]) -> None:
    await trio.sleep(seconds)
    call()
