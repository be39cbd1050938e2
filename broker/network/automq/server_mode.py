"""The classes of a socket server in AutoMQ's mode. Called by `server`."""

from functools import partial

from broker.config.sections import AutomqConfig
from broker.network.automq.callback_queues import CallbackQueues
from broker.network.automq.handler_pool import QueuePerHandler
from broker.network.automq.processor import PipelinedProcessor
from broker.network.automq.request_queues import RequestQueues
from broker.network.automq.responder import Watermarks
from broker.network.automq.throttling import PipelinedThrottling
from broker.network.server_mode import ServerMode


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
