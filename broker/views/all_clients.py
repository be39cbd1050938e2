"""The clients of all gateways that share limits: a client that uses several of them is one row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

from broker.controller.rows.quotas import ClientUsage

AT_ONCE: Final = 64

History = Sequence[tuple[int, int, int]]


def all_clients(
    own: Iterable[ClientUsage],
    others: Iterable[ClientUsage],
    limited_by: Callable[[str, str], tuple[str, ...]],
) -> Iterator[ClientUsage | None]:
    """Yield the clients in no order; `others` are those of other gateways. None stands for work without a row
    yet. `limited_by` returns the keys of the limits of a user and client id.
    """
    there: dict[tuple[str, str], list[ClientUsage]] = {}
    for number, row in enumerate(others):
        there.setdefault((row.user, row.client_id), []).append(row)
        if number % AT_ONCE == AT_ONCE - 1:
            yield None
    for row in own:
        same = there.pop((row.user, row.client_id), None)
        yield row if same is None else _together([row, *same], row.limited_by)
    for rows in there.values():
        yield _together(rows, limited_by(rows[0].user, rows[0].client_id))


def _together(rows: Sequence[ClientUsage], limited_by: tuple[str, ...]) -> ClientUsage:
    first = rows[0]
    times = [row.request_percentage for row in rows if row.request_percentage is not None]
    return ClientUsage(
        user=first.user,
        client_id=first.client_id,
        connections=sum(row.connections for row in rows),
        bytes_in_per_s=sum(row.bytes_in_per_s for row in rows),
        bytes_out_per_s=sum(row.bytes_out_per_s for row in rows),
        requests_per_s=sum(row.requests_per_s for row in rows),
        request_percentage=max(times, default=None),
        bytes_in=sum(row.bytes_in for row in rows),
        bytes_out=sum(row.bytes_out for row in rows),
        requests=sum(row.requests for row in rows),
        since_at_ms=min(row.since_at_ms for row in rows),
        last_active_at_ms=max(row.last_active_at_ms for row in rows),
        limited_by=limited_by,
        history=partial(_histories, [row.history for row in rows]),
        nodes=first.nodes,
        gateways=tuple(dict.fromkeys(name for row in rows for name in row.gateways)),
    )


def _histories(histories: Iterable[Callable[[], History]]) -> History:
    """Return the sums of each interval. The last intervals of all are the same, within five seconds."""
    backwards = zip_longest(*(reversed(history()) for history in histories), fillvalue=(0, 0, 0))
    sums = [tuple(map(sum, zip(*rows, strict=True))) for rows in backwards]
    return [(row[0], row[1], row[2]) for row in reversed(sums)]
