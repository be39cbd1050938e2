"""Holds connections that have several requests in hand. (AutoMQ: StartThrottlingResponse)

More than one of them may be over the quota. The connection is held once for each kind of quota, until the
latest of their ends; answers that it is owed leave meanwhile.
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
