"""Client telemetry views: the subscriptions of the image with the known client instances. See `views` for
units.

Part of `console.Views`. Every call builds its rows anew.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Final

import msgspec

from broker.common.errors import ErrorCode
from broker.common.slices import Steps
from broker.controller.rows.fields import HIDDEN, Measured, Moment, Tags, one_of
from broker.metadata.image import Image, SubscriptionEntry
from broker.metrics.rate import Meter
from broker.telemetry.instance import ClientInstance, uuid_bytes, uuid_text
from broker.telemetry.state import Telemetry
from broker.telemetry.subscription import SETTINGS, matching, read_subscription


class SubscriptionRow(msgspec.Struct, frozen=True):
    """A client metrics subscription. `matching` counts the client instances that match now; `version` is the
    ETag, as a quota's.
    """

    name: str
    metrics: tuple[str, ...]
    interval_ms: int = msgspec.field(name="interval.ms")
    match: tuple[str, ...]
    matching: int
    version: int
    changed_at_ms: Moment
    changed_by: str


class ClientInstanceRow(msgspec.Struct, frozen=True):
    """A client instance. `subscriptions` are those that match it, `metrics` their prefixes: all metrics if
    `is_over_limit` says that there were too many. `pushes`, `throttles` and `errors` are totals; `last_error`
    is Kafka's name of the last request's error, "" without one. `series` counts its stored metrics.
    """

    instance_id: str
    client_id: str
    principal: str
    address: str
    software_name: str
    software_version: str
    connection_id: str
    subscriptions: tuple[str, ...]
    metrics: tuple[str, ...]
    interval_ms: int
    pushes: int
    pushed_bytes: int
    throttles: int
    errors: int
    last_error: str
    terminating: bool
    series: int
    is_over_limit: bool = msgspec.field(name="over_limit")
    last_push_at_ms: Moment | None


class ClientMetricRow(msgspec.Struct, frozen=True):
    """One metric of a client, under its own name. `shape` is counter or gauge; `history` contains (time,
    value), the newest last. A counter starts when the broker first sees the client.
    """

    name: str
    attributes: Tags
    shape: Annotated[str, one_of("counter", "gauge")]
    value: Measured
    history: Annotated[tuple[tuple[int, float], ...], HIDDEN]


class MatchReach(msgspec.Struct, frozen=True):
    """The clients that a subscription would match: `clients` of the `of` known instances, and the client ids
    of the first few.
    """

    clients: int
    of: int
    examples: tuple[str, ...]


EXAMPLES: Final = 5


class ClientTelemetry:
    def __init__(self, image: Callable[[], Image], telemetry: Telemetry) -> None:
        self._image = image
        self._telemetry = telemetry

    @property
    def known(self) -> int:
        """Return the number of known client instances."""
        return len(self._telemetry.manager)

    def subscriptions(self) -> Iterator[SubscriptionRow | None]:
        """Yield all subscriptions, sorted by name, and None after work that produced no row."""
        manager, image = self._telemetry.manager, self._image()
        counts: Counter[str] = Counter()
        for each in list(manager):
            matched = yield from manager.matched(each)
            counts.update(matched)
            yield None
        for name in sorted(image.client_metrics):
            yield _row(image.client_metrics[name], counts[name])

    def subscription(self, name: str) -> Steps[SubscriptionRow | None]:
        entry = self._image().client_metrics.get(name)
        if entry is None:
            return None
        return _row(entry, (yield from self.reach(name, entry.configs)).clients)

    def reach(self, name: str, configs: Mapping[str, str]) -> Steps[MatchReach]:
        """Return the clients that these settings would match. Raises ApiError as a change to them would."""
        wanted = yield from read_subscription(name, configs)
        instances = list(self._telemetry.manager)
        count = 0
        examples: dict[str, None] = {}
        for each in instances:
            if (yield from matching((wanted,), each.client.facts(each.id))):
                count += 1
                if len(examples) < EXAMPLES:
                    examples[each.client.client_id or ""] = None
            yield
        return MatchReach(count, len(instances), tuple(examples))

    def instances(self) -> Iterator[ClientInstanceRow | None]:
        """Yield all client instances, by the time of their last request, and None after work that produced no
        row.
        """
        for each in list(self._telemetry.manager):
            yield (yield from self._instance(each))

    def instance(self, instance_id: str) -> Steps[ClientInstanceRow | None]:
        """Return one client instance; None also for an invalid id."""
        found = self._find(instance_id)
        return None if found is None else (yield from self._instance(found))

    def metrics_of(self, instance_id: str) -> list[ClientMetricRow]:
        """Return its metrics, sorted by name and attributes; empty if the instance is unknown."""
        found = self._find(instance_id)
        if found is None:
            return []
        rows = []
        for _, series in self._telemetry.latest.of(found.id):
            pairs = zip(series.history[::2], series.history[1::2], strict=True)
            history = tuple((int(at_ms), value) for at_ms, value in pairs)
            shape = series.shape.value
            rows.append(ClientMetricRow(series.name, series.attributes, shape, series.value, history))
        return sorted(rows, key=lambda row: (row.name, row.attributes))

    def _find(self, instance_id: str) -> ClientInstance | None:
        try:
            return self._telemetry.manager.find(uuid_bytes(instance_id))
        except ValueError:
            return None

    def _instance(self, each: ClientInstance) -> Steps[ClientInstanceRow]:
        matched = yield from self._telemetry.manager.matched(each)
        client, error = each.client, each.last_error
        return ClientInstanceRow(
            instance_id=uuid_text(each.id),
            client_id=client.client_id or "",
            principal=client.principal,
            address=client.address,
            software_name=client.software_name,
            software_version=client.software_version,
            connection_id=client.connection_id,
            subscriptions=matched,
            metrics=each.effective.metrics,
            is_over_limit=each.effective.is_over_limit,
            interval_ms=each.effective.interval_ms,
            pushes=_total(each.exports),
            pushed_bytes=each.pushed_bytes,
            throttles=_total(each.throttles),
            errors=_total(each.errors),
            last_error="" if error is ErrorCode.NONE else error.name,
            last_push_at_ms=each.last_push_wall_ms,
            terminating=each.terminating,
            series=len(self._telemetry.latest.of(each.id)),
        )


def _row(entry: SubscriptionEntry, clients: int) -> SubscriptionRow:
    texts = {key: entry.configs.get(key, setting.write(setting.default)) for key, setting in SETTINGS.items()}
    values = {key: SETTINGS[key].read(text or "") for key, text in texts.items()}
    return SubscriptionRow(
        entry.name,
        values["metrics"],
        values["interval.ms"],
        values["match"],
        clients,
        entry.version,
        entry.changed_at_ms,
        entry.changed_by,
    )


def _total(meter: Meter | None) -> int:
    return 0 if meter is None else int(meter.total)
