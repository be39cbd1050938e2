"""The time to wait before a request is sent again.

Used by broker.monitoring.otlp.export and broker.monitoring.alerts.outbox.
"""

from typing import Final

FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 30_000


def retry_ms(attempt: int, retry_after: str | None, most_ms: int = MAX_RETRY_MS) -> int:
    """Return the delay after attempt number `attempt`, from 1.

    It doubles each time, or is the receiver's Retry-After in seconds, up to `most_ms`.
    """
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]) * 1_000, most_ms)
    return int(min(FIRST_RETRY_MS * 2 ** min(attempt - 1, 10), most_ms))
