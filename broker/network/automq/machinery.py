"""What a socket server is built of in AutoMQ's mode. Called by `house`."""

from functools import partial

from broker.config.rooms import AutomqConfig
from broker.network.automq.callback_queues import CallbackQueues
from broker.network.automq.handler_pool import QueuePerHandler
from broker.network.automq.processor import PipelinedProcessor
from broker.network.automq.request_queues import RequestQueues
from broker.network.automq.responder import Watermarks
from broker.network.automq.throttling import PipelinedThrottling
from broker.network.machinery import Machinery


def automq(config: AutomqConfig) -> Machinery:
    """With the limits of `config`, as long as the server runs."""
    return Machinery(
        partial(RequestQueues, size_limit=config.queued_requests_size),
        CallbackQueues,
        partial(PipelinedProcessor, watermarks=Watermarks(config.pipeline_high, config.pipeline_low)),
        QueuePerHandler,
        PipelinedThrottling,
        resizable=False,
    )
