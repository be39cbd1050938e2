"""The values that rules are compared with, by what they are about. Read from the views of the console.

Called by broker.monitoring.alerts.task, once for each condition that a rule uses. Generators yield None after
each piece of work.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.common.patterns import glob
from broker.common.slices import Steps
from broker.controller.rows.alerts import Labels
from broker.controller.rows.connections import ThrottledRow
from broker.controller.rows.topics import GroupRow
from broker.controller.rows.upstream import RefusedRecords
from broker.metadata.alerts import AlertCondition, AlertRule
from broker.monitoring.alerts.evaluation import AtLeast
from broker.views.console import Views
from broker.views.disks import disk_rows
from broker.views.load import Load
from broker.views.readings import Part


class Values(dict[Labels, float]):
    """By what they are about. `others` is the value of what is not there."""

    others: float = 0.0


def throttled(rows: Iterable[ThrottledRow | None]) -> Steps[Values]:
    """Return the longest present throttle in ms of each client of this server, by kind of quota."""
    found = Values()
    for row in rows:
        yield
        if row is not None and not row.gateway:
            labels = (*_client(row), ("quota_type", str(row.quota_type)))
            found[labels] = max(found.get(labels, 0.0), float(row.throttle_ms))
    return found


def ignoring(rows: Iterable[ThrottledRow | None]) -> Steps[Values]:
    """Return the number of throttled connections that do not wait, by client of this server."""
    found = Values()
    for row in rows:
        yield
        if row is not None and not row.gateway and row.obeys is False:
            labels = _client(row)
            found[labels] = found.get(labels, 0.0) + 1
    return found


def _client(row: ThrottledRow) -> Labels:
    if not row.client_id and not row.principal:
        return (("address", row.address),)
    return (("client_id", row.client_id), ("user", row.principal))


def lag(rows: Iterable[GroupRow | None]) -> Steps[Values]:
    """Return the lag of each group in records. One without a committed offset has none."""
    found = Values()
    for row in rows:
        yield
        if row is not None and not row.lag_is_known:
            found[(("group", row.group_id),)] = AtLeast(row.lag or 0)
        elif row is not None and row.lag is not None:
            found[(("group", row.group_id),)] = float(row.lag)
    return found


def refused(rows: Iterable[RefusedRecords]) -> Steps[Values]:
    """Return how many records of each topic of the gateways were refused in the last minute, by reason."""
    yield
    return Values({(("topic", row.topic), ("reason", row.reason)): float(row.last_minute) for row in rows})


def disk_use(directories: Sequence[str]) -> Values:
    """Return the used part in percent of the disk of each directory that can be asked, as df computes it.
    Slow where a disk is; for a worker thread.
    """
    return Values({(("directory", row.directory),): 100.0 * row.used for row in disk_rows(directories)})


def lag_of_groups(views: Views) -> Steps[Values]:
    """Return the lag of all groups. A gateway reads those of its cluster again if they are old: these are the
    last. No lag is known if it could not read them.
    """
    views.readings.want(Part.GROUPS)
    is_current = views.readings.is_current(Part.GROUPS)
    found = (yield from lag(views.topics.each_group())) if is_current else Values()
    if not is_current or not views.readings.lists_all(Part.GROUPS):
        found.others = AtLeast(0)
    return found


def of_server(load: Load, node: str) -> dict[AlertCondition, Values]:
    """Return the values of the whole server by condition, without those that are not known."""
    values = {
        AlertCondition.BYTES_IN: load.bytes_in,
        AlertCondition.BYTES_OUT: load.bytes_out,
        AlertCondition.CONNECTIONS: float(load.connections),
        AlertCondition.NETWORK_IDLE: 100.0 * load.network_idle,
        AlertCondition.HANDLER_IDLE: 100.0 * load.handler_idle,
        AlertCondition.THREAD_IDLE: 100.0 * load.thread_idle,
        AlertCondition.REQUEST_MEMORY: 100.0 * load.memory_used,
    }
    labels = (("node", node),)
    return {
        condition: Values({} if math.isnan(value) else {labels: value}) for condition, value in values.items()
    }


def sources(views: Views) -> Mapping[AlertCondition, Callable[[], Steps[Values]]]:
    return {
        AlertCondition.THROTTLED: lambda: throttled(views.quotas.each_throttled()),
        AlertCondition.IGNORES_THROTTLING: lambda: ignoring(views.quotas.each_throttled()),
        AlertCondition.LAG: lambda: lag_of_groups(views),
        AlertCondition.REFUSED_RECORDS: lambda: refused(
            () if views.upstream is None else views.upstream.refused()
        ),
    }


def matching(rule: AlertRule, values: Values) -> Steps[Values]:
    """Return the values that the rule's pattern selects; none if an earlier version accepted the pattern and
    this one does not.
    """
    if not rule.match:
        return values
    found = Values()
    found.others = values.others
    try:
        pattern = glob(rule.match)
    except ValueError:
        return found
    yield
    for labels, value in values.items():
        for _, text in labels:
            yield
            if pattern.fullmatch(text):
                found[labels] = value
                break
    return found
