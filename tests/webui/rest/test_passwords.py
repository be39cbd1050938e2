"""Passwords set by REST, and what they open."""

from base64 import b64encode
from typing import Any

import pytest

from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.pages.test_views import cookie_of, csrf_of, sign_in
from webui.rest.tokens import REFUSED, TOKEN
from webui.tables.json_output import utc

PATH = "/api/v1/tokens"
GOOD = "correct horse battery"


def put(http: Browserless, name: str = "vi", password: Any = GOOD, **rest: Any) -> Any:
    body = {"password": password} | ({"present": rest.pop("present")} if "present" in rest else {})
    return http.ask("PUT", f"{PATH}/{name}:password", body=body, **rest)


async def login(http: Browserless, name: str, password: str, **headers: str) -> Any:
    return await http.ask("POST", "/login", token=None, body={"name": name, "password": password}, **headers)


async def test_an_administrator_sets_a_password_that_opens_the_console(
    http: Browserless, broker: FakeBroker
) -> None:
    assert (await login(http, "vi", GOOD)).status_code == 401
    answer = await put(http)
    row = TOKEN.check(await answer.get_json())
    assert row["password_set_at"] == utc(broker.now_ms)
    assert answer.headers["ETag"] == f'"{row["version"]}"'
    opened = await login(http, "vi", GOOD)
    assert opened.status_code == 200 and (await opened.get_json())["role"] == "viewer"
    assert (await http.get("/", token=None, Cookie=cookie_of(opened))).status_code == 200
    assert (await put(http, password=None)).status_code == 200
    assert (await login(http, "vi", GOOD)).status_code == 401


async def test_no_answer_holds_a_password_or_what_was_made_of_it(http: Browserless) -> None:
    for answer in (await put(http), await http.get(PATH), await http.get(f"{PATH}/vi")):
        text = (await answer.get_data()).decode()
        assert GOOD not in text and "digest" not in text and "salt" not in text


async def test_a_bearer_is_a_token_and_never_a_password(http: Browserless) -> None:
    await put(http)
    assert (await http.get(PATH, token=GOOD.replace(" ", ""))).status_code == 401
    assert (await http.get(PATH, token=GOOD)).status_code == 401


async def test_everybody_else_changes_his_own_by_the_present_one_or_the_token(http: Browserless) -> None:
    mine: dict[str, Any] = {"token": "viewer-token"}
    assert (await put(http, **mine)).status_code == 403
    wrong = await put(http, present="a wrong guess", **mine)
    assert wrong.status_code == 403 and (await wrong.get_json())["where"] == "/present"
    assert (await put(http, present="viewer-token", **mine)).status_code == 200
    assert (await put(http, password="another good one", present=GOOD, **mine)).status_code == 200
    assert (await put(http, present=GOOD, **mine)).status_code == 403
    assert (await put(http, password=None, present="another good one", **mine)).status_code == 200


async def test_nobody_else_sets_anothers(http: Browserless, broker: FakeBroker) -> None:
    before = (dict(broker.passwords), list(broker.token_rows), list(broker.hashing))
    for present in ({}, {"present": "editor-token"}, {"present": "viewer-token"}):
        assert (await put(http, "root", token="editor-token", **present)).status_code == 403
    assert (broker.passwords, broker.token_rows, broker.hashing) == before


async def test_the_present_password_cannot_be_guessed_at_either(http: Browserless) -> None:
    statuses = [
        (await put(http, present=f"guess {index}", token="viewer-token")).status_code for index in range(6)
    ]
    assert statuses == [403] * 5 + [429]


async def test_a_weak_password_is_refused(http: Browserless, broker: FakeBroker) -> None:
    answer = await put(http, password="short")
    assert answer.status_code == 400 and "12 to 256" in (await answer.get_json())["detail"]
    assert broker.passwords == {}
    assert (await put(http, "nobody")).status_code == 404


async def test_a_change_against_another_version_costs_no_hash(http: Browserless, broker: FakeBroker) -> None:
    answer = await put(http, If_Match='"1"')
    assert answer.status_code == 412 and broker.hashing == [] and broker.passwords == {}
    assert REFUSED.check(await answer.get_json())["current"]["name"] == "vi"


async def test_a_change_ends_the_other_sessions_of_that_name_and_no_others(http: Browserless) -> None:
    mine, other, editors = [await sign_in(http, f"{who}-token") for who in ("viewer", "viewer", "editor")]
    csrf = await csrf_of(http, mine)
    shown = b64encode(b"viewer-token").decode()
    answer = await put(http, token=None, Cookie=mine, X_CSRF_Token=csrf, X_Present_Secret=shown)
    assert answer.status_code == 200
    for cookie, status in ((mine, 200), (other, 401), (editors, 200)):
        assert (await http.get(PATH, token=None, Cookie=cookie)).status_code == status
    # The administrator's change leaves none.
    await put(http, password=None)
    assert (await http.get(PATH, token=None, Cookie=mine)).status_code == 401


async def test_a_new_sign_in_by_name_has_another_cookie_and_ends_the_one_before(http: Browserless) -> None:
    await put(http)
    before = cookie_of(await login(http, "vi", GOOD))
    after = cookie_of(await login(http, "vi", GOOD, Cookie=before))
    assert after != before
    assert (await http.get("/", token=None, Cookie=before)).status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {"name": "vi"}, {"password": GOOD}, {"name": "", "password": GOOD}, {"name": "vi", "password": ""},
        {"name": "x" * 65, "password": GOOD}, {"name": "vi", "password": "x" * 1_025},
        {"name": "vi", "password": GOOD, "token": "viewer-token"}, {"name": None, "password": GOOD},
        {"name": ["vi"], "password": GOOD},
    ],
)  # fmt: skip
async def test_a_sign_in_that_is_none_is_refused_before_anything_is_tried(
    http: Browserless, broker: FakeBroker, body: Any
) -> None:
    assert (await http.ask("POST", "/login", token=None, body=body)).status_code == 400
    assert broker.hashing == []


async def test_whoever_was_signed_out_while_it_was_hashed_changes_nothing(
    http: Browserless, broker: FakeBroker
) -> None:
    def revoked_meanwhile() -> None:
        broker.token_rows = [row for row in broker.token_rows if row.name != "ed"]
        broker.version += 1

    broker.while_hashing = revoked_meanwhile
    answer = await put(http, "ed", present="editor-token", token="editor-token")
    assert answer.status_code == 401 and broker.passwords == {}
