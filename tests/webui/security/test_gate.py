"""The checks of every request."""

import pytest
from msgspec.structs import replace

from broker.controller.commands import ChangeOrigin, Role
from tests.webui.conftest import Clock
from tests.webui.fake_access import ADMIN, VIEWER
from tests.webui.fakes import FakeBroker
from webui.console import Console
from webui.problem import Problem
from webui.security.authenticator import EXPIRED, LONGEST_SECRET
from webui.security.gate import RequestInfo, check_body, check_encoding

HERE = "10.0.0.7"


def request_info(method: str = "GET", scheme: str = "http", **given: dict[str, str]) -> RequestInfo:
    headers = {"Host": "127.0.0.1:8080"} | given.get("headers", {})
    return RequestInfo(method, scheme, "/api/v1/overview", HERE, headers, given.get("cookies", {}))


def is_logged_in(console: Console, secret: str = "admin-token") -> tuple[dict[str, str], str]:
    """The cookies and the CSRF token of a new session."""
    cookies = {"weir-8080": console.authenticator.sign_in(secret, HERE, None)[0]}
    session = console.gate.session(request_info(cookies=cookies))
    assert session is not None
    return cookies, session.csrf


def refusal(console: Console, attempt: RequestInfo) -> Problem:
    with pytest.raises(Problem) as caught:
        console.gate.identity(attempt)
    return caught.value


def test_a_strange_host_is_misdirected(console: Console) -> None:
    with pytest.raises(Problem) as caught:
        console.gate.check_origin(request_info(headers={"Host": "evil.example"}))
    assert caught.value.status == 421


def test_health_checks_may_use_any_host(console: Console) -> None:
    console.gate.check_origin(request_info(headers={"Host": "10.1.2.3:8080"}), any_host=True)


def test_another_site_is_forbidden(console: Console) -> None:
    with pytest.raises(Problem) as caught:
        console.gate.check_origin(request_info("POST", headers={"Sec-Fetch-Site": "same-site"}))
    assert caught.value.status == 403


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "text/json", "application/jsonp"]
)
def test_a_body_that_any_page_could_send_is_refused(media: str) -> None:
    with pytest.raises(Problem) as caught:
        check_body(request_info("POST", headers={"Content-Type": media}))
    assert caught.value.status == 415


@pytest.mark.parametrize("media", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_by_its_name_is_read(media: str) -> None:
    check_body(request_info("POST", headers={"Content-Type": media}))


def test_a_bearer_token_settles_name_role_and_origin(console: Console) -> None:
    identity = console.gate.identity(request_info(headers={"Authorization": "bearer  viewer-token "}))
    actor = identity.actor()
    assert (actor.name, actor.role, actor.address, actor.origin) == (
        "vi",
        Role.VIEWER,
        HERE,
        ChangeOrigin.REST,
    )


@pytest.mark.parametrize(
    "authorization", ["Bearer wrong", "Bearer", "Bearer " + "x" * 2_000, "Basic YTpi", ""]
)
def test_anything_else_as_authorization_is_unknown(console: Console, authorization: str) -> None:
    problem = refusal(console, request_info(headers={"Authorization": authorization}))
    assert problem.status == 401 and problem.headers == {"WWW-Authenticate": "Bearer"}


def test_a_wrong_bearer_token_is_not_saved_by_a_good_cookie(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    assert (
        refusal(console, request_info(headers={"Authorization": "Bearer wrong"}, cookies=cookies)).status
        == 401
    )


@pytest.mark.parametrize(("length", "known"), [(LONGEST_SECRET, True), (LONGEST_SECRET + 1, False)])
def test_a_secret_longer_than_any_is_not_even_compared(
    console: Console, broker: FakeBroker, length: int, *, known: bool
) -> None:
    broker.secrets["x" * length] = ADMIN
    assert (console.authenticator.holder("x" * length) is not None) is known


def test_nothing_at_all_is_unknown(console: Console) -> None:
    assert refusal(console, request_info()).status == 401
    assert refusal(console, request_info(cookies={"weir-8080": "made up", "weir-9999": "x"})).status == 401


def test_a_session_settles_the_origin_as_a_page(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    actor = console.gate.identity(request_info(cookies=cookies)).actor()
    assert (actor.name, actor.role, actor.origin) == ("root", Role.ADMIN, ChangeOrigin.PAGE)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "ANYTHING"])
def test_a_change_by_cookie_needs_the_csrf_token(console: Console, method: str) -> None:
    cookies, csrf = is_logged_in(console)
    _, another = is_logged_in(console)
    assert refusal(console, request_info(method, cookies=cookies)).status == 403
    assert (
        refusal(console, request_info(method, cookies=cookies, headers={"X-CSRF-Token": another})).status
        == 403
    )
    console.gate.identity(request_info(method, cookies=cookies, headers={"X-CSRF-Token": csrf}))


def test_the_cookie_of_another_scheme_or_port_is_not_ours(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    assert console.gate.session(request_info(scheme="https", cookies=cookies)) is None
    assert console.gate.cookie_name("https") == "__Host-weir-8080"


def test_guessing_makes_wait(console: Console, clock: Clock) -> None:
    for index in range(5):
        assert refusal(console, request_info(headers={"Authorization": f"Bearer {index}"})).status == 401
    problem = refusal(console, request_info(headers={"Authorization": "Bearer admin-token"}))
    assert problem.status == 429 and problem.headers == {"Retry-After": "1"}
    clock.ms += 1_000
    console.gate.identity(request_info(headers={"Authorization": "Bearer admin-token"}))


def test_whoever_is_signed_in_does_not_wait_for_the_guesses_of_others(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    for index in range(20):
        with pytest.raises(Problem):
            console.authenticator.bearer(f"guess {index}", HERE)
    console.gate.identity(request_info(cookies=cookies))


def test_whoever_watches_and_signs_out_in_another_tab_is_not_signed_in_any_more(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    watching = request_info(cookies=cookies)
    identity = console.gate.identity(watching)
    assert console.gate.is_still_signed_in(watching, identity)
    console.authenticator.sign_out(cookies["weir-8080"])
    assert not console.gate.is_still_signed_in(watching, identity)


def test_signing_in_again_ends_the_session_before(console: Console) -> None:
    cookies, _ = is_logged_in(console)
    console.authenticator.sign_in("admin-token", HERE, cookies["weir-8080"])[0]
    assert console.gate.session(request_info(cookies=cookies)) is None


def test_a_revoked_token_ends_its_sessions(console: Console, broker: FakeBroker) -> None:
    cookies, _ = is_logged_in(console)
    others, _ = is_logged_in(console, "viewer-token")
    broker.token_rows.remove(ADMIN)
    broker.version += 1
    assert console.gate.session(request_info(cookies=cookies)) is None
    assert console.gate.session(request_info(cookies=others)) is not None


def test_an_expired_token_ends_its_sessions_to_the_millisecond(
    console: Console, broker: FakeBroker, clock: Clock
) -> None:
    broker.token_rows[2] = replace(VIEWER, expires_at_ms=broker.now_ms + 60_000)
    broker.secrets["viewer-token"] = broker.token_rows[2]
    cookies, _ = is_logged_in(console, "viewer-token")
    streaming = console.gate.identity(request_info(headers={"Authorization": "Bearer viewer-token"}))
    attempt = request_info(headers={"Authorization": "Bearer viewer-token"})
    broker.now_ms += 59_999
    clock.ms += 59_999
    assert console.gate.session(request_info(cookies=cookies)) is not None
    assert console.gate.is_still_signed_in(attempt, streaming)
    broker.now_ms += 1
    clock.ms += 1
    assert not console.gate.is_still_signed_in(attempt, streaming)
    assert console.gate.session(request_info(cookies=cookies)) is None
    assert console.gate.why_ended(request_info(cookies=cookies)) == EXPIRED
    # An ended session stays ended if the clock is set back.
    broker.now_ms -= 1
    assert console.gate.session(request_info(cookies=cookies)) is None


@pytest.mark.parametrize("change", [{"role": "editor"}, {"changed_at_ms": VIEWER.changed_at_ms + 1}])
def test_a_replaced_token_ends_them_too(
    console: Console, broker: FakeBroker, change: dict[str, object]
) -> None:
    cookies, _ = is_logged_in(console, "viewer-token")
    broker.token_rows[2] = replace(VIEWER, **change)  # type: ignore[arg-type]
    broker.version += 1
    assert console.gate.session(request_info(cookies=cookies)) is None


@pytest.mark.parametrize(
    "target", [b"/api/v1/topics/%C3%BC", b"/api/v1/topics/a%20b?search=%E2%82%AC", b"/%", b"/%zz"]
)
def test_an_address_in_utf_8_is_read(target: bytes) -> None:
    check_encoding(target)


@pytest.mark.parametrize(
    "target", [b"/topics/%FF", b"/topics/%fe", b"/topics/\xff", b"/?q=%C3", b"/%ED%A0%80"]
)
def test_an_address_that_is_not_utf_8_is_refused(target: bytes) -> None:
    with pytest.raises(Problem) as refused:
        check_encoding(target)
    assert refused.value.status == 400
