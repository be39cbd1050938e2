"""The headers that go out with every answer, and how those that came in are looked up.

Put on by http.app. Scripts, styles, images and connections come from the console itself or not at all; no
inline script or style; nothing may frame it; `trusted-types 'none'` makes the browser refuse innerHTML even
if one of our own scripts tried.
"""

from typing import Final, Protocol, overload


class HeaderLookup(Protocol):
    """Request headers; names are looked up whatever their case."""

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

ALWAYS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

NOT_STORED: Final = "no-store"
FOR_EVER: Final = "public, max-age=31536000, immutable"
OVER_TLS: Final = {"Strict-Transport-Security": "max-age=31536000"}
