"""The routes of single sign-on: /oidc/login leads to the provider, /oidc/callback back to the console.

Added to the app by http.app. A cookie of the browser that began, sent with the provider's redirect
(SameSite=Lax), belongs to the state: a callback that another browser began does not log in.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from quart import Response, request
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio

from webui.console import Console
from webui.http.page_routes import redirect_to, set_session_cookie, sign_in_page
from webui.http.request import request_info_of
from webui.pages import Renderer
from webui.problem import Problem
from webui.security.gate import RequestInfo

LOGIN: Final = "/oidc/login"
CALLBACK: Final = "/oidc/callback"
_SECONDS: Final = 600


def add_single_sign_on(app: QuartTrio, console: Console, renderer: Renderer) -> None:
    if not console.oidc.is_enabled:
        return
    for path, name, view in (
        (LOGIN, "oidc_login", _login_view(console, renderer)),
        (CALLBACK, "oidc_callback", _callback_view(console, renderer)),
    ):
        app.add_url_rule(path, name, view, methods=["GET"], provide_automatic_options=False)


View = Callable[[], Awaitable[ResponseReturnValue]]


def _login_view(console: Console, renderer: Renderer) -> View:
    async def view() -> ResponseReturnValue:
        info = request_info_of(request)
        origin = console.gate.own_host.redirect_origin(info.scheme, info.headers.get("Host", ""))
        if origin is not None:
            return redirect_to(origin, LOGIN, b"")
        try:
            address, browser = await console.oidc.begin(_redirect_uri(console, info), info.address)
        except Problem as problem:
            return sign_in_page(console, renderer, problem.detail, problem.status)
        opened = Response(b"", status=303, headers={"Location": address})
        opened.set_cookie(
            _cookie(console, info),
            browser,
            max_age=_SECONDS,
            path="/",
            secure=info.scheme == "https",
            httponly=True,
            samesite="Lax",
        )
        return opened

    return view


def _callback_view(console: Console, renderer: Renderer) -> View:
    async def view() -> ResponseReturnValue:
        info = request_info_of(request)
        browser = info.cookies.get(_cookie(console, info), "")
        try:
            signed_in = await console.oidc.finish(request.args.to_dict(), browser)
        except Problem as problem:
            refused = sign_in_page(console, renderer, problem.detail, problem.status)
            return _without_cookie(console, info, refused)
        old = info.cookies.get(console.gate.cookie_name(info.scheme))
        secret, _ = console.authenticator.sign_in_by_provider(
            signed_in.name, signed_in.role, signed_in.logout_url, old
        )
        opened = Response(b"", status=303, headers={"Location": "/"})
        set_session_cookie(console, opened, secret)
        return _without_cookie(console, info, opened)

    return view


def _redirect_uri(console: Console, info: RequestInfo) -> str:
    public = console.settings.public_url.rstrip("/")
    return (public or f"{info.scheme}://{info.headers.get('Host', '')}") + CALLBACK


def _cookie(console: Console, info: RequestInfo) -> str:
    return f"{console.gate.cookie_name(info.scheme)}-oidc"


def _without_cookie(console: Console, info: RequestInfo, response: Response) -> Response:
    response.delete_cookie(
        _cookie(console, info), path="/", secure=info.scheme == "https", httponly=True, samesite="Lax"
    )
    return response
