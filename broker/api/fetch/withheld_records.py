"""Decides whether the response to a consumer over the request quota has records. (KIP-124)"""

from broker.api.requests.context import Connection
from broker.quotas.bandwidth import RateSensor
from broker.quotas.throttled import Throttle


class WithheldRecords:
    """The decision for one fetch with `size` bytes of records, made while a request quota is set.

    Kafka withholds the records of every fetch over the request quota. Because the throttle is at most one
    window, a client whose fetches exceed its share of a window would never receive a record. Here such a
    client receives records once in the whole span that the quota measures (all of its windows); the throttle
    stays.

    A paced client that always wants more is throttled with every request, for what the one before took. Its
    records are never withheld twice in a row: the time is spent either way.
    """

    __slots__ = ("_connection", "_since_ms", "_size")

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self._size = size
        self._since_ms = connection.withheld_since_ms
        if size:
            connection.withheld_since_ms = 0

    def are_withheld(self, throttle: Throttle, now_ms: int) -> bool:
        """Return whether `throttle` withholds the records, and note since when the connection has none."""
        if self._size:
            since_ms = self._since_ms
            if since_ms and now_ms - since_ms >= _longest_ms(throttle):
                return False
            self._connection.withheld_since_ms = since_ms or now_ms
        return True


def _longest_ms(throttle: Throttle) -> int:
    """Return for how long a connection gets no records."""
    sensor = throttle.sensor
    if isinstance(sensor, RateSensor) and sensor.pace is not None:
        return 0
    window = sensor.rate.window
    return window.samples * window.window_ms
