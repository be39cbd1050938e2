"""The rows of views as lists, in the order that tests expect."""

from collections.abc import Sequence

from broker.controller.rows.connections import AddressRow, ConnectionRow
from broker.controller.rows.quotas import ClientUsage, QuotaFilter, QuotaRow
from broker.controller.rows.topics import GroupRow
from broker.views.console import Views


def quota_rows(
    views: Views, components: Sequence[QuotaFilter] = (), *, strict: bool = False
) -> list[QuotaRow]:
    """Return the rules, named entities before the default of the same type."""
    rows = filter(None, views.quotas.each_quota(components, strict=strict))
    return sorted(rows, key=lambda row: [(kind, name is None, name or "") for kind, name in row.entity])


def usage_rows(views: Views) -> list[ClientUsage]:
    """Return client usage, the busiest by bytes in and out first."""
    rows = filter(None, views.quotas.each_usage())
    return sorted(rows, key=lambda row: -(row.bytes_in_per_s + row.bytes_out_per_s))


def address_rows(views: Views) -> list[AddressRow]:
    return list(filter(None, views.quotas.each_address()))


def connection_rows(views: Views) -> list[ConnectionRow]:
    return list(views.live.each_connection())


def group_rows(views: Views) -> list[GroupRow]:
    return sorted(filter(None, views.topics.each_group()), key=lambda row: row.group_id)
