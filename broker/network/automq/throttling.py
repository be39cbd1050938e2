"""Throttles connections with several requests in flight. (AutoMQ: StartThrottlingResponse)

Several of these requests may exceed a quota. The connection is throttled once per kind of quota, until the
latest end; its pending responses are sent meanwhile.
"""

from broker.network.handling.request import Request
from broker.network.throttling import Throttling
from broker.quotas.verdict import Throttle


class PipelinedThrottling(Throttling):
    def start(self, request: Request, throttle: Throttle, *, is_told: bool = True) -> None:
        channel = request.channel
        if channel.fd < 0:
            return
        if self._quotas.prolong(channel, throttle, self._clock.ms()):
            self._watchers.throttled(channel, throttle)
        else:
            super().start(request, throttle, is_told=is_told)
