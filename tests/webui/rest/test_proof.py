"""The proof that a session gives again before it changes access."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from quart import Response

from tests.webui.conftest import Browserless, Clock
from tests.webui.fake_access import ADMIN, EDITOR, VIEWER
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import csrf_of, sign_in
from webui.security.authenticator import LONGEST_SECRET

PATH = "/api/v1/tokens"

CHANGES: dict[str, tuple[str, str, Any]] = {
    "issue": ("POST", PATH, {"name": "new", "role": "admin"}),
    "renew": ("POST", f"{PATH}/vi:renew", {"expires_in_ms": None}),
    "revoke": ("DELETE", f"{PATH}/vi", None),
    "set a password": ("PUT", f"{PATH}/vi:password", {"password": "correct horse battery"}),
    "set one's own": ("PUT", f"{PATH}/root:password", {"password": "correct horse battery"}),
}

Ask = Callable[..., Any]


@pytest.fixture
async def ask(http: Browserless) -> Ask:
    """Asks for a change in a session; `secret` is what is typed into the form, None leaves the field out."""
    cookie = await sign_in(http)
    csrf = await csrf_of(http, cookie)

    async def request(change: str, secret: str | None = None, **headers: str) -> Response:
        method, path, body = CHANGES[change]
        if secret is not None:
            headers["X_Present_Secret"] = b64encode(secret.encode()).decode()
        return await http.ask(
            method, path, token=None, body=body, Cookie=cookie, X_CSRF_Token=csrf, **headers
        )

    return request


def unchanged(broker: FakeBroker) -> bool:
    return broker.token_rows == [ADMIN, EDITOR, VIEWER] and broker.passwords == {}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_session_alone_changes_no_token(ask: Ask, broker: FakeBroker, change: str) -> None:
    for secret in (None, "", "wrong", "editor-token", "viewer-token"):
        answer = await ask(change, secret)
        assert answer.status_code == 403 and (await answer.get_json())["where"] == "/present", secret
    assert unchanged(broker)


@pytest.mark.parametrize("change", CHANGES)
async def test_the_token_the_password_or_a_new_link_is_shown_with_it(
    ask: Ask, broker: FakeBroker, clock: Clock, change: str
) -> None:
    broker.passwords["root"] = "pass wörd of root"
    assert (await ask(change, "pass wörd of root")).status_code in (200, 201, 204)


@pytest.mark.parametrize("change", CHANGES)
async def test_the_token_is_enough(ask: Ask, change: str) -> None:
    assert (await ask(change, "admin-token")).status_code in (200, 201, 204)


async def test_the_code_of_a_new_link_is_enough_once_and_for_fifteen_minutes(
    ask: Ask, broker: FakeBroker, clock: Clock
) -> None:
    code, old = broker.links.make(clock.ms), broker.links.make(clock.ms - 900_000)
    assert (await ask("issue", old)).status_code == 403
    assert (await ask("issue", code)).status_code == 201
    assert (await ask("revoke", code)).status_code == 403
    assert broker.hashing != []


async def test_the_code_of_a_link_is_not_enough_for_another_name(
    http: Browserless, broker: FakeBroker, clock: Clock
) -> None:
    cookie = await sign_in(http, "viewer-token")
    csrf = await csrf_of(http, cookie)
    secret = b64encode(broker.links.make(clock.ms).encode()).decode()
    body = {"password": "correct horse battery"}
    headers = {"Cookie": cookie, "X_CSRF_Token": csrf, "X_Present_Secret": secret}
    answer = await http.ask("PUT", f"{PATH}/vi:password", token=None, body=body, **headers)
    assert answer.status_code == 403 and unchanged(broker)


async def test_secrets_cannot_be_guessed_here_either(ask: Ask, broker: FakeBroker) -> None:
    assert [(await ask("issue", f"guess {index}")).status_code for index in range(6)] == [403] * 5 + [429]
    assert unchanged(broker)


@pytest.mark.parametrize(("length", "status"), [(LONGEST_SECRET, 403), (LONGEST_SECRET + 1, 400)])
async def test_a_secret_longer_than_any_is_not_hashed(
    ask: Ask, broker: FakeBroker, length: int, status: int
) -> None:
    assert (await ask("issue", "x" * length)).status_code == status
    assert bool(broker.hashing) is (status == 403)


@pytest.mark.parametrize("header", ["é", "not base64!", "/w==", "YQ"])
async def test_invalid_secrets_are_refused(ask: Ask, broker: FakeBroker, header: str) -> None:
    assert (await ask("issue", X_Present_Secret=header)).status_code == 400
    assert unchanged(broker) and broker.hashing == []


async def test_whoever_signs_out_while_the_secret_is_looked_at_changes_nothing(
    ask: Ask, broker: FakeBroker
) -> None:
    row = broker.token_rows[0]

    class Slow(list[str]):
        def append(self, thread: str) -> None:
            broker.token_rows.remove(row)
            broker.version += 1

    broker.hashing = Slow()
    assert (await ask("revoke", "admin-token")).status_code == 401
    assert VIEWER in broker.token_rows


@pytest.mark.parametrize("change", CHANGES)
async def test_a_program_has_shown_its_token_with_the_request(http: Browserless, change: str) -> None:
    method, path, body = CHANGES[change]
    assert (await http.ask(method, path, body=body)).status_code in (200, 201, 204)
