"""Reads the key sets of token issuers while the broker runs: one task for each set.

`broker.server.app` starts the tasks and waits until each has tried once. A set that cannot be read keeps its
old keys; logins with tokens fail while it has none. A cancellation leaves the set as it is.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.http_requests import HttpRequest, fetch_over_http
from broker.common.json_web_keys import PublicKey, read_keys
from broker.security.issuer_keys import IssuerKeys, RefreshTimes, keys_of_file
from broker.security.watched_files import CHECK_EVERY_MS, stamps

logger = logging.getLogger(__name__)

TASK: Final = "oauthbearer-keys"

Fetch = Callable[[HttpRequest], Awaitable[tuple[int, bytes]]]
"""Returns status and body. Raises OSError for network errors."""


async def follow_keys(
    keys: IssuerKeys,
    clock: Clock,
    fetch: Fetch = fetch_over_http,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keep a key set up to date, until cancelled."""
    if keys.source.file is not None:
        task_status.started()
        await _follow_file(keys)
    else:
        await _follow_url(keys, clock, fetch, task_status)


async def _follow_file(keys: IssuerKeys) -> None:
    file = keys.source.file
    assert file is not None
    seen = stamps([file])
    while True:
        await trio.sleep(CHECK_EVERY_MS / 1_000)
        if (now := stamps([file])) == seen:
            continue
        seen = now
        try:
            keys.keys = await trio.to_thread.run_sync(keys_of_file, file)
        except ValueError as error:
            logger.warning(
                "cannot use the new keys of the token issuer; the old ones stay",
                extra={"file": str(file), "reason": str(error)},
            )
        else:
            _log_read(keys)


async def _follow_url(
    keys: IssuerKeys, clock: Clock, fetch: Fetch, task_status: trio.TaskStatus[None]
) -> None:
    times = RefreshTimes(keys.source, clock.ms())
    moved = trio.Event()

    def demand() -> None:
        if times.demanded(clock.ms()):
            moved.set()

    keys.demand = demand
    while True:
        was_failing = times.is_failing
        try:
            found = await _fetched(keys.source.url, fetch)
        except (OSError, ValueError) as error:
            if not was_failing:
                _log_failure(keys, error)
            times.failed(clock.ms())
        else:
            if found != keys.keys or was_failing:
                keys.keys = found
                _log_read(keys)
            times.succeeded(clock.ms())
        task_status.started()
        task_status = trio.TASK_STATUS_IGNORED
        while (wait_ms := times.next_ms - clock.ms()) > 0:
            moved = trio.Event()
            with trio.move_on_after(wait_ms / 1_000):
                await moved.wait()


async def _fetched(url: str, fetch: Fetch) -> tuple[PublicKey, ...]:
    """Raises OSError, ValueError."""
    status, body = await fetch(HttpRequest(url))
    if status != 200:
        raise OSError(f"it answers {status}")
    return await trio.to_thread.run_sync(read_keys, body)


def _log_read(keys: IssuerKeys) -> None:
    logger.info("keys of the token issuer read", extra={"url": keys.source.url, "keys": len(keys.keys)})


def _log_failure(keys: IssuerKeys, error: Exception) -> None:
    consequence = "the old ones stay" if keys.keys else "logins with OAUTHBEARER fail until it can"
    logger.warning(
        f"cannot read the keys of the token issuer; {consequence}",
        extra={"url": keys.source.url, "reason": str(error)},
    )
