"""The headers of every response, and the protocol for request headers.

Set by http.app. Scripts, styles, images and connections are restricted to the console itself; inline
scripts, inline styles and framing are forbidden; `trusted-types 'none'` makes browsers refuse innerHTML
even in the console's own scripts.
"""

from typing import Final, Protocol, overload


class HeaderLookup(Protocol):
    """Request headers, with case-insensitive names."""

    @overload
    def get(self, name: str, /) -> str | None: ...

    @overload
    def get(self, name: str, default: str, /) -> str: ...


CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

NO_STORE: Final = "no-store"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
TLS_HEADERS: Final = {"Strict-Transport-Security": "max-age=31536000"}
