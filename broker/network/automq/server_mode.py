"""The classes of a socket server in AutoMQ's mode. Called by `server`."""

from functools import partial

from broker.config.sections import AutomqConfig
from broker.network.automq.callback_queues import CallbackQueues
from broker.network.automq.handler_pool import QueuePerHandler
from broker.network.automq.processor import PipelinedProcessor
from broker.network.automq.request_queues import RequestQueues
from broker.network.automq.responder import Watermarks
from broker.network.handling.request_channel import Request
from broker.network.server_factory import ServerMode
from broker.network.throttling import Throttling
from broker.quotas.throttled import Throttle


class PipelinedThrottling(Throttling):
    """Throttles connections of which several requests may exceed a quota: once per kind of quota, until the
    latest end. Their pending responses are sent meanwhile. (AutoMQ: StartThrottlingResponse)
    """

    def start(self, request: Request, throttle: Throttle, *, is_reported: bool = True) -> None:
        channel = request.channel
        if channel.fd < 0:
            return
        if self._quotas.prolong(channel, throttle, self._clock.ms()):
            self._observers.throttled(channel, throttle)
        else:
            super().start(request, throttle, is_reported=is_reported)


def automq(config: AutomqConfig) -> ServerMode:
    """Return the mode with the limits of `config`, which are fixed while the server runs."""
    return ServerMode(
        partial(RequestQueues, size_limit=config.queued_requests_size),
        CallbackQueues,
        partial(PipelinedProcessor, watermarks=Watermarks(config.pipeline_high, config.pipeline_low)),
        QueuePerHandler,
        PipelinedThrottling,
        resizable=False,
    )
