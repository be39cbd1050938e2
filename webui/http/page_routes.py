"""Routes of the console's pages, login (also by single sign-on), logout and static files.

Added to the app by http.app. The pages load and change all data through the REST API.

/oidc/login leads to the provider, /oidc/callback back to the console. A cookie of the browser that began,
sent with the provider's redirect (SameSite=Lax), belongs to the state: a callback that another browser began
does not log in.
"""

from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import quote, urlencode

from quart import Response, request
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio

from broker.common.errors import ApiError
from broker.controller.commands import Role
from broker.views.console import Views
from broker.views.readings import Part
from webui.console import Console
from webui.http.request import body_of, request_info_of
from webui.pages import (
    KINDS,
    MISSING,
    PAGES,
    QUOTA,
    UPSTREAMS,
    UPSTREAMS_OWN,
    Kind,
    Page,
    Renderer,
    StaticFiles,
    shared_files,
    shared_renderer,
)
from webui.path_names import path_name, unescaped
from webui.problem import Problem
from webui.quotas import ENTITY, BadId, entity_of, id_of, pairs_of
from webui.rest import bodies as strict_json
from webui.rest.records import browse_role
from webui.rest.routing import JSON
from webui.rest.tokens import LONGEST_NAME
from webui.schema import Invalid, Record, Text
from webui.security import headers
from webui.security.authenticator import LONGEST_SECRET, is_of_provider, role_of
from webui.security.gate import RequestInfo, check_body
from webui.security.origin import is_cross_site, sends_fetch_site
from webui.security.sessions import Session
from webui.tables.json_output import encode
from webui.tables.slices import run_in_slices

REFUSED_ADDRESS: Final = (
    "A token in the URL is not accepted, because histories and logs keep it. Paste it here, or open a "
    "link that weir console-link prints."
)
UNPROVEN_LINK: Final = (
    "Over plain HTTP from another machine this browser does not send the link's origin, so links cannot "
    "log in. Use a token or a password here, or TLS."
)
IN_QUERIES: Final = "!$&'()*+,;=:@/?%-._~"
"""Characters that stay unquoted in the query of a redirect."""

OIDC_LOGIN: Final = "/oidc/login"
OIDC_CALLBACK: Final = "/oidc/callback"
_OIDC_SECONDS: Final = 600

_SECRET = Text(min_length=1, max_length=LONGEST_SECRET)
_BY_TOKEN = Record({"token": _SECRET})
_BY_NAME = Record({"name": Text(min_length=1, max_length=LONGEST_NAME), "password": _SECRET})


def add_pages(app: QuartTrio, console: Console) -> None:
    for page in PAGES:
        _add(app, page.path, page.key, _page_view(console, shared_renderer(), page), "GET")
    for kind in KINDS:
        view = _kind_view(console, shared_renderer(), kind)
        _add(app, f"{kind.listed}/<path:name>", kind.noun, view, "GET")
    _add(app, "/records", "records", _old_records_view, "GET")
    _add(app, "/login", "login", _login_view(console), "POST")
    _add(app, "/logout", "logout", _logout_view(console), "POST")
    _add(app, "/session", "session", _session_view(console), "GET")
    _add(app, "/static/<version>/<path:name>", "static_file", _static_view(shared_files()), "GET")
    if console.oidc.is_enabled:
        _add(app, OIDC_LOGIN, "oidc_login", _oidc_login_view(console, shared_renderer()), "GET")
        _add(app, OIDC_CALLBACK, "oidc_callback", _oidc_callback_view(console, shared_renderer()), "GET")


View = Callable[..., Awaitable[ResponseReturnValue]]


def _add(app: QuartTrio, path: str, name: str, view: View, method: str) -> None:
    app.add_url_rule(path, name, view, methods=[method], provide_automatic_options=False)


def _page_view(console: Console, renderer: Renderer, page: Page) -> View:
    async def view() -> ResponseReturnValue:
        if page.path == "/quotas" and (rule := _old_rule(request.args.to_dict())):
            return Response(b"", status=303, headers={"Location": rule})
        session = _session_of(console, renderer, page.path)
        if isinstance(session, Response):
            return session
        is_gateway = console.backend.views.is_gateway
        template = UPSTREAMS_OWN if is_gateway and page.key in UPSTREAMS else page.key
        return _page(console, renderer, session, template, page)

    return view


def _kind_view(console: Console, renderer: Renderer, kind: Kind) -> View:
    """Create the view of a topic, a group or a quota. The page reads the name from its address."""

    async def view(name: str) -> ResponseReturnValue:
        try:
            named = name if kind.noun == QUOTA else unescaped(name)
        except UnicodeDecodeError:
            named = None
        path = kind.listed if named is None else f"{kind.listed}/{quote(path_name(named), safe='')}"
        if named is not None and kind.noun == QUOTA:
            path = f"{kind.listed}/{quote(named, safe=IN_QUERIES)}"
        session = _session_of(console, renderer, path)
        if isinstance(session, Response):
            return session
        page, status = kind.tab(request.args.get("tab", "")), 200
        if named is None or await _is_missing(console.backend.views, kind, named):
            page, status = MISSING, 404
        response = _page(console, renderer, session, page.key, page, kind)
        response.status_code = status
        return response

    return view


async def _is_missing(views: Views, kind: Kind, name: str) -> bool:
    """Return whether the thing is known not to exist. A gateway asks its cluster before it says so."""
    if kind.noun == QUOTA:
        try:
            return await run_in_slices(views.quotas.quota(entity_of(name))) is None
        except BadId:
            return True
    is_topic = kind.noun == "topic"

    def is_there() -> bool:
        return views.topics.has_topic(name) if is_topic else views.topics.has_group(name)

    part = Part.TOPICS if is_topic else Part.GROUPS
    if is_there():
        return False
    try:
        await views.readings.fresh(part)
    except ApiError:
        return False  # the page says why nothing can be read
    return not is_there() and views.readings.lists_all(part)


async def _old_records_view() -> ResponseReturnValue:
    """Redirect from the page that read any topic's records to the page of the topic."""
    asked = request.args.to_dict()
    topic = asked.pop("topic", "")
    path = f"/topics/{quote(path_name(topic), safe='')}" if topic else "/topics"
    more = f"?{urlencode({'start': 'latest'} | asked)}" if topic else ""
    return Response(b"", status=303, headers={"Location": path + more})


def _old_rule(asked: dict[str, str]) -> str:
    """Return the page of the rule that an old address of the list names, "" if it names none."""
    try:
        rule = id_of(pairs_of(ENTITY.check(strict_json.parse(asked.get("rule", "").encode()))))
    except (strict_json.NotJson, Invalid):
        return ""
    more = f"?{urlencode({'edit': asked['edit']})}" if asked.get("edit") else ""
    return f"/quotas/{quote(rule, safe=IN_QUERIES)}{more}"


def _session_of(console: Console, renderer: Renderer, path: str) -> Session | Response:
    """Return the session of a request for a page, or what is answered without one."""
    request_info = request_info_of(request)
    own_origin = console.gate.own_host.redirect_origin(
        request_info.scheme, request_info.headers.get("Host", "")
    )
    if own_origin is not None:
        return _redirect_to(own_origin, path, request.query_string)
    if "token" in request.args:
        return _sign_in_page(console, renderer, REFUSED_ADDRESS, 403)
    code = request.args.get("code")
    if code is not None and request.method == "GET":
        return _login_by_link(console, renderer, path, request_info, code)
    return console.gate.session(request_info) or _sign_in_page(console, renderer, "")


def _page(
    console: Console,
    renderer: Renderer,
    session: Session,
    template: str,
    page: Page,
    kind: Kind | None = None,
) -> Response:
    views = console.backend.views
    info = views.server_info()
    html = renderer.render(
        f"{template}.html",
        page=page,
        kind=kind,
        is_gateway=views.is_gateway,
        shares_limits=views.shares.others() is not None,
        csrf=session.csrf,
        who=session.token.name,
        role=session.token.role.lower(),
        may_edit=role_of(session.token) >= Role.EDITOR,
        may_browse=role_of(session.token) >= browse_role(console.settings),
        browse_role=console.settings.browse_role,
        by_sign_on=is_of_provider(session.token),
        quota_callback=views.quotas.callback,
        endpoint=info.endpoint,
        mechanisms=sorted({name for each in info.endpoints for name in each.mechanisms}),
    )
    return Response(html, content_type="text/html; charset=utf-8")


def _redirect_to(origin: str, path: str, query: bytes) -> Response:
    """Redirect to the same page on the host that has its own cookies."""
    more = f"?{quote(query, safe=IN_QUERIES)}" if query else ""
    return Response(b"", status=307, headers={"Location": f"{origin}{path}{more}"})


def _login_by_link(
    console: Console, renderer: Renderer, path: str, request_info: RequestInfo, code: str
) -> Response:
    """Log in by a link that the broker or `weir console-link` printed. The redirect removes the code from
    the address bar.
    """
    if is_cross_site(request_info.headers):
        # Another site's link must not log the visitor in as the link's creator (login CSRF).
        return _sign_in_page(
            console, renderer, "Open the link from the terminal, not from another page.", 403
        )
    if not sends_fetch_site(request_info.headers, request_info.address):
        return _sign_in_page(console, renderer, UNPROVEN_LINK, 403)
    opened = Response(b"", status=303, headers={"Location": path})
    old = request_info.cookies.get(console.gate.cookie_name(request_info.scheme))
    try:
        secret, _ = console.authenticator.sign_in_by_link(code, request_info.address, old)
    except Problem as problem:
        if console.gate.session(request_info) is not None:
            # The link was opened again in the browser that it logged in.
            return opened
        return _sign_in_page(console, renderer, problem.detail, problem.status)
    _set_session_cookie(console, opened, secret)
    return opened


def _sign_in_page(console: Console, renderer: Renderer, message: str, status: int = 401) -> Response:
    html = renderer.render("login.html", message=message, has_sign_on=console.oidc.is_enabled)
    return Response(html, status=status, content_type="text/html; charset=utf-8")


def _login_view(console: Console) -> View:
    """Create the login view. It returns the token's name and role, and a CSRF token for open pages."""

    async def view() -> ResponseReturnValue:
        request_info = request_info_of(request)
        check_body(request_info)
        old = request_info.cookies.get(console.gate.cookie_name(request_info.scheme))
        authenticator = console.authenticator
        with authenticator.guess(request_info.address) as guess:
            given = strict_json.parse(await body_of(request))
            if isinstance(given, dict) and "name" in given:
                by = _BY_NAME.check(given)
                opened = await authenticator.sign_in_by_name(
                    by["name"], by["password"], request_info.address, old, guess
                )
            else:
                token = _BY_TOKEN.check(given)["token"]
                opened = authenticator.sign_in(token, request_info.address, old, guess)
        secret, session = opened
        who = {"name": session.token.name, "role": session.token.role, "csrf": session.csrf}
        response = Response(encode(who), content_type=JSON)
        _set_session_cookie(console, response, secret)
        return response

    return view


def _oidc_login_view(console: Console, renderer: Renderer) -> View:
    async def view() -> ResponseReturnValue:
        info = request_info_of(request)
        origin = console.gate.own_host.redirect_origin(info.scheme, info.headers.get("Host", ""))
        if origin is not None:
            return _redirect_to(origin, OIDC_LOGIN, b"")
        try:
            address, browser = await console.oidc.begin(_redirect_uri(console, info), info.address)
        except Problem as problem:
            return _sign_in_page(console, renderer, problem.detail, problem.status)
        opened = Response(b"", status=303, headers={"Location": address})
        opened.set_cookie(
            _oidc_cookie(console, info),
            browser,
            max_age=_OIDC_SECONDS,
            path="/",
            secure=info.scheme == "https",
            httponly=True,
            samesite="Lax",
        )
        return opened

    return view


def _oidc_callback_view(console: Console, renderer: Renderer) -> View:
    async def view() -> ResponseReturnValue:
        info = request_info_of(request)
        browser = info.cookies.get(_oidc_cookie(console, info), "")
        try:
            signed_in = await console.oidc.finish(request.args.to_dict(), browser)
        except Problem as problem:
            refused = _sign_in_page(console, renderer, problem.detail, problem.status)
            return _without_oidc_cookie(console, info, refused)
        old = info.cookies.get(console.gate.cookie_name(info.scheme))
        secret, _ = console.authenticator.sign_in_by_provider(
            signed_in.name, signed_in.role, signed_in.logout_url, old
        )
        opened = Response(b"", status=303, headers={"Location": "/"})
        _set_session_cookie(console, opened, secret)
        return _without_oidc_cookie(console, info, opened)

    return view


def _redirect_uri(console: Console, info: RequestInfo) -> str:
    public = console.settings.public_url.rstrip("/")
    return (public or f"{info.scheme}://{info.headers.get('Host', '')}") + OIDC_CALLBACK


def _oidc_cookie(console: Console, info: RequestInfo) -> str:
    return f"{console.gate.cookie_name(info.scheme)}-oidc"


def _without_oidc_cookie(console: Console, info: RequestInfo, response: Response) -> Response:
    response.delete_cookie(
        _oidc_cookie(console, info), path="/", secure=info.scheme == "https", httponly=True, samesite="Lax"
    )
    return response


def _logout_view(console: Console) -> View:
    async def view() -> ResponseReturnValue:
        request_info = request_info_of(request)
        session = console.gate.identity(request_info).session
        name = console.gate.cookie_name(request_info.scheme)
        console.authenticator.sign_out(request_info.cookies.get(name, ""))
        response = Response(b"", status=204)
        if session is not None and session.logout_url:
            # The page goes there, so that the provider's session ends too.
            response = Response(encode({"location": session.logout_url}), content_type=JSON)
        response.delete_cookie(
            name, path="/", secure=request_info.scheme == "https", httponly=True, samesite="Strict"
        )
        return response

    return view


def _session_view(console: Console) -> View:
    """Create the view that returns to a page whether a session exists, and why it ended. A page opened from
    another site's link is requested without the cookie (SameSite=Strict).
    """

    async def view() -> ResponseReturnValue:
        request_info = request_info_of(request)
        if console.gate.session(request_info) is not None:
            return Response(b"", status=204)
        ended = encode({"reason": console.gate.why_ended(request_info)})
        return Response(ended, status=401, content_type=JSON)

    return view


def _static_view(static: StaticFiles) -> View:
    async def view(version: str, name: str) -> ResponseReturnValue:
        found = static.get(name)
        if found is None:
            raise Problem(404, "File not found.")
        content, media = found
        kept = headers.IMMUTABLE if version == static.version else headers.NO_STORE
        return Response(content, content_type=media, headers={"Cache-Control": kept})

    return view


def _set_session_cookie(console: Console, response: Response, secret: str) -> None:
    scheme = request.scheme
    response.set_cookie(
        console.gate.cookie_name(scheme),
        secret,
        path="/",
        secure=scheme == "https",
        httponly=True,
        samesite="Strict",
    )
