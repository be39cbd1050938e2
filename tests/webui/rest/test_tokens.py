"""Tokens and passwords: what they open, and how they end."""

from base64 import b64encode
from typing import Any

import pytest

from tests.webui.conftest import Browserless, Clock
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import cookie_of, csrf_of, sign_in
from webui.rest.tokens import ISSUED, REFUSED, TOKEN, TOKENS
from webui.tables.json_output import utc

PATH = "/api/v1/tokens"


DAY_MS = 86_400_000


def issue(http: Browserless, name: Any = "ci", role: Any = "viewer", life: Any = ..., **rest: Any) -> Any:
    body = {"name": name, "role": role} | ({} if life is ... else {"expires_in_ms": life})
    return http.ask("POST", PATH, body=body, **rest)


def renew(http: Browserless, name: str, life: Any = None, **rest: Any) -> Any:
    return http.ask("POST", f"{PATH}/{name}:renew", body={"expires_in_ms": life}, **rest)


async def test_tokens_are_listed_without_their_secrets(http: Browserless) -> None:
    answer = await http.get(PATH, token="editor-token")
    listed = TOKENS.check(await answer.get_json())
    assert [(row["name"], row["role"]) for row in listed["items"]] == [
        ("ed", "editor"),
        ("root", "admin"),
        ("vi", "viewer"),
    ]
    assert listed["mine"] == "ed" and b"admin-token" not in await answer.get_data()


async def test_a_token_says_when_it_was_last_used(
    http: Browserless, broker: FakeBroker, clock: Clock
) -> None:
    async def used() -> dict[str, str | None]:
        listed = TOKENS.check(await (await http.get(PATH)).get_json())
        return {row["name"]: row["last_used_at"] for row in listed["items"]}

    assert await used() == {"root": utc(broker.now_ms), "ed": None, "vi": None}
    await http.get(PATH, token="viewer-token")
    clock.ms += 5_000
    assert await used() == {"root": utc(broker.now_ms), "ed": None, "vi": utc(broker.now_ms - 5_000)}
    await http.ask("DELETE", f"{PATH}/vi")
    assert "vi" not in await used()


async def test_a_new_token_signs_in_with_its_role(http: Browserless, broker: FakeBroker) -> None:
    answer = await issue(http)
    assert answer.status_code == 201
    token = ISSUED.check(await answer.get_json())
    assert (await http.get(PATH, token=token["secret"])).status_code == 200
    assert (await issue(http, "other", token=token["secret"])).status_code == 403


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
async def test_only_an_administrator_issues_and_revokes(
    http: Browserless, broker: FakeBroker, token: str
) -> None:
    before = list(broker.token_rows)
    # A name that is taken is answered as one that is not: the role goes first.
    for name in ("new", "root"):
        assert (await issue(http, name, "admin", token=token)).status_code == 403
    assert (await renew(http, "vi", token=token)).status_code == 403
    assert (await http.ask("DELETE", f"{PATH}/vi", token=token)).status_code == 403
    assert broker.token_rows == before


async def test_a_token_is_not_replaced_by_a_new_one_of_its_name(
    http: Browserless, broker: FakeBroker
) -> None:
    before = list(broker.token_rows)
    assert (await issue(http, "vi", "admin")).status_code == 409
    assert broker.token_rows == before


async def test_a_renewed_token_has_another_secret_and_the_same_role(http: Browserless) -> None:
    old = (await (await issue(http)).get_json())["secret"]
    answer = await renew(http, "ci")
    renewed = ISSUED.check(await answer.get_json())
    assert renewed["role"] == "viewer" and renewed["secret"] != old
    assert (await http.get(PATH, token=old)).status_code == 401
    assert (await http.get(PATH, token=renewed["secret"])).status_code == 200
    assert (await renew(http, "nobody")).status_code == 404


async def test_a_revoked_token_opens_nothing(http: Browserless) -> None:
    assert (await http.ask("DELETE", f"{PATH}/vi")).status_code == 204
    assert (await http.get(PATH, token="viewer-token")).status_code == 401
    assert (await http.ask("DELETE", f"{PATH}/vi")).status_code == 404


async def test_the_last_administrator_stays(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.ask("DELETE", f"{PATH}/root")
    problem = await answer.get_json()
    assert answer.status_code == 409 and "last administrator" in problem["detail"]
    assert problem["type"] == "urn:weir:problem:last-administrator"


@pytest.mark.parametrize(
    ("name", "role"), [("", "viewer"), ("x" * 65, "viewer"), ("a", "owner"), (7, "viewer"), ("a", None)]
)
async def test_invalid_tokens_are_refused(http: Browserless, name: Any, role: Any) -> None:
    assert (await issue(http, name, role)).status_code == 400


@pytest.mark.parametrize(
    ("life", "status"),
    [
        (None, 201), (59_999, 400), (60_000, 201), (60_001, 201), (10 * 366 * DAY_MS, 201),
        (10 * 366 * DAY_MS + 1, 400), (0, 400), (-1, 400), ("60000", 400), (60_000.5, 400), (True, 400),
        (2**63, 400),
    ],
)  # fmt: skip
async def test_a_token_lives_for_a_minute_to_ten_years_or_until_it_is_revoked(
    http: Browserless, life: Any, status: int
) -> None:
    assert (await issue(http, life=life)).status_code == status
    assert (await renew(http, "vi", life)).status_code == (200 if status == 201 else 400)


async def test_a_token_is_good_until_its_expiry_and_not_a_millisecond_longer(
    http: Browserless, broker: FakeBroker
) -> None:
    token = ISSUED.check(await (await issue(http, life=DAY_MS)).get_json())
    assert token["expires_at"] == utc(broker.now_ms + DAY_MS)
    made_ms = broker.now_ms
    for passed, status, left in ((DAY_MS - 1, 200, 1), (DAY_MS, 401, 0), (DAY_MS + 1, 401, 0)):
        broker.now_ms = made_ms + passed
        answer = await http.get(PATH, token=token["secret"])
        assert answer.status_code == status
        if status == 401:
            assert "has expired" in (await answer.get_json())["detail"]
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        row = TOKEN.check(await (await http.get(f"{PATH}/ci")).get_json())
        assert (row["expires_in_ms"], row["expires_at"]) == (left, token["expires_at"])


async def test_an_expired_token_is_no_guess(http: Browserless, broker: FakeBroker) -> None:
    token = (await (await issue(http, life=60_000)).get_json())["secret"]
    broker.now_ms += 60_000
    for _ in range(10):
        assert (await http.get(PATH, token=token)).status_code == 401


async def test_an_expired_token_is_good_again_when_it_is_renewed(
    http: Browserless, broker: FakeBroker
) -> None:
    await issue(http, life=60_000)
    broker.now_ms += 60_000
    renewed = await (await renew(http, "ci", 60_000)).get_json()
    assert (await http.get(PATH, token=renewed["secret"])).status_code == 200
    broker.now_ms += 60_000
    assert (await http.get(PATH, token=renewed["secret"])).status_code == 401


async def test_the_only_administrator_cannot_be_given_an_end(http: Browserless, broker: FakeBroker) -> None:
    answer = await renew(http, "root", DAY_MS)
    assert answer.status_code == 409 and "last administrator" in (await answer.get_json())["detail"]
    assert (await http.get(PATH)).status_code == 200


async def test_an_edit_of_a_token_that_was_changed_meanwhile_shows_what_it_is_now(
    http: Browserless, broker: FakeBroker
) -> None:
    read = await http.get(f"{PATH}/vi")
    tag = read.headers["ETag"]
    row = TOKEN.check(await read.get_json())
    assert tag == f'"{row["version"]}"'
    answer = await renew(http, "vi", DAY_MS, If_Match=tag)
    assert answer.status_code == 200 and answer.headers["ETag"] != tag
    for stale in (
        await renew(http, "vi", If_Match=tag),
        await http.ask("DELETE", f"{PATH}/vi", If_Match=tag),
    ):
        assert stale.status_code == 412
        problem = REFUSED.check(await stale.get_json())
        assert problem["current"]["expires_at"] == utc(broker.now_ms + DAY_MS)
        assert f'"{problem["current"]["version"]}"' == answer.headers["ETag"]
    gone = await http.ask("DELETE", f"{PATH}/vi", If_Match=answer.headers["ETag"])
    assert gone.status_code == 204
    assert (await http.get(f"{PATH}/vi")).status_code == 404
    assert (await http.ask("DELETE", f"{PATH}/vi", If_Match=tag)).status_code == 404


async def test_an_if_match_that_is_no_version_is_refused(http: Browserless) -> None:
    assert (await renew(http, "vi", If_Match="vi")).status_code == 400


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


async def test_other_users_change_their_own_by_the_current_password_or_the_token(http: Browserless) -> None:
    mine: dict[str, Any] = {"token": "viewer-token"}
    assert (await put(http, **mine)).status_code == 403
    wrong = await put(http, present="a wrong guess", **mine)
    assert wrong.status_code == 403 and (await wrong.get_json())["where"] == "/present"
    assert (await put(http, present="viewer-token", **mine)).status_code == 200
    assert (await put(http, password="another good one", present=GOOD, **mine)).status_code == 200
    assert (await put(http, present=GOOD, **mine)).status_code == 403
    assert (await put(http, password=None, present="another good one", **mine)).status_code == 200


async def test_only_administrators_set_the_passwords_of_others(http: Browserless, broker: FakeBroker) -> None:
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
