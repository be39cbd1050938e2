"""Requests to HTTP servers that the operator has configured: token issuers and identity providers, and when
to send a request again.

Used by broker.server.parts.oauthbearer_keys and by webui.security.oidc; `root_cause` and `retry_ms` also by
broker.monitoring.otlp.export and broker.monitoring.alerts.outbox. A request follows no redirects, and uses
neither proxies nor passwords of the environment. It has a deadline, and its answer a largest size.
"""

import ssl
from collections.abc import Mapping
from typing import Final

import msgspec
import trio

MAX_ANSWER_BYTES: Final = 1_048_576
TIMEOUT_S: Final = 10.0
FIRST_RETRY_MS: Final = 1_000
MAX_RETRY_MS: Final = 30_000


class HttpRequest(msgspec.Struct, frozen=True):
    """`form` None: GET, else POST."""

    url: str
    form: Mapping[str, str] | None = None
    authorization: str = ""


async def fetch_over_http(request: HttpRequest) -> tuple[int, bytes]:
    """Return status and body of the answer. Raises OSError for network errors, late answers and long ones."""
    import httpx2

    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if request.authorization:
        headers["Authorization"] = request.authorization
    try:
        with trio.fail_after(TIMEOUT_S):
            context = await _tls_context(request.url)
            async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=TIMEOUT_S) as client:
                method = "GET" if request.form is None else "POST"
                async with client.stream(method, request.url, data=request.form, headers=headers) as response:
                    body = b""
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if len(body) > MAX_ANSWER_BYTES:
                            raise OSError("its answer is too long")
                    return response.status_code, body
    except trio.TooSlowError as error:
        raise OSError(f"no answer within {TIMEOUT_S:g} s") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(root_cause(error)) from error


async def _tls_context(url: str) -> ssl.SSLContext:
    """Trust the machine's certificate authorities as they are now, or those in SSL_CERT_FILE.

    Reading them takes tens of milliseconds, so a thread does it.
    """
    if not url.startswith("https:"):
        # httpx2 would load certificates for plain HTTP too.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return await trio.to_thread.run_sync(ssl.create_default_context, abandon_on_cancel=True)


def root_cause(error: BaseException) -> str:
    """Return the system's error, which Trio, httpcore and httpx2 wrap in errors of their own."""
    first: BaseException | None = error
    while first is not None and not (isinstance(first, OSError) and first.errno):
        error = first
        first = first.__cause__ or first.__context__
        if isinstance(first, BaseExceptionGroup):
            first = first.exceptions[-1]
    error = first or error
    return f"{type(error).__name__}: {error}"


def retry_ms(attempt: int, retry_after: str | None, most_ms: int = MAX_RETRY_MS) -> int:
    """Return the delay after attempt number `attempt`, from 1.

    It doubles each time, or is the receiver's Retry-After in seconds, up to `most_ms`.
    """
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        return min(int(retry_after[:9]) * 1_000, most_ms)
    return int(min(FIRST_RETRY_MS * 2 ** min(attempt - 1, 10), most_ms))
