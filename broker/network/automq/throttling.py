"""Throttling of pipelined connections. (AutoMQ: StartThrottlingResponse)"""

from broker.network.throttling import ThrottledRequest, Throttling
from broker.quotas.throttled import Throttle


class PipelinedThrottling(Throttling):
    """Throttles connections of which several requests may exceed a quota: once per kind of quota, until the
    latest end. Their pending responses are sent meanwhile.
    """

    def start(self, request: ThrottledRequest, throttle: Throttle, *, is_reported: bool = True) -> None:
        channel = request.channel
        if channel.fd < 0:
            return
        if self._quotas.prolong(channel, throttle, self._clock.ms()):
            self._observers.throttled(channel, throttle)
        else:
            super().start(request, throttle, is_reported=is_reported)
