"""The result of a violated quota.

Created by the managers and carried with the response to the network package, which mutes the channel, and to
the console, which shows the reason.
"""

from dataclasses import dataclass, field

from broker.quotas.entity import Governing
from broker.quotas.kinds import QuotaKind
from broker.quotas.usage import ClientSensor


@dataclass(frozen=True, slots=True)
class Throttle:
    """A throttle of `throttle_ms` (at least 1): `observed` exceeds `bound`, which `rule` sets.

    `observed` and `bound` are in the kind's unit: bytes/s, percent of one thread, tokens left and
    partitions/s for mutations.
    """

    kind: QuotaKind
    throttle_ms: int
    rule: Governing
    observed: float
    bound: float
    sensor: ClientSensor = field(repr=False, compare=False)


def larger(bandwidth: Throttle | None, request: Throttle | None) -> Throttle | None:
    """Return the throttle that applies to a request; of equals the request quota's, as in KafkaApis."""
    if bandwidth is None:
        return request
    if request is None or bandwidth.throttle_ms > request.throttle_ms:
        return bandwidth
    return request
