"""Who may sign in, and as what."""

from typing import Any

import pytest

from tests.webui.conftest import Browserless, Clock
from tests.webui.fakes import FakeBroker
from webui.rest.tokens import ISSUED, TOKENS
from webui.shapes import utc

PATH = "/api/v1/tokens"


def issue(http: Browserless, name: Any = "ci", role: Any = "viewer", **rest: Any) -> Any:
    return http.ask("POST", PATH, body={"name": name, "role": role}, **rest)


async def test_tokens_are_listed_without_their_secrets(http: Browserless) -> None:
    answer = await http.get(PATH, token="editor-token")
    listed = TOKENS.check(await answer.get_json())
    assert [(row["name"], row["role"]) for row in listed["items"]] == [
        ("root", "admin"),
        ("ed", "editor"),
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


async def test_a_new_token_opens_the_door_with_its_role(http: Browserless, broker: FakeBroker) -> None:
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
    assert (await http.ask("POST", f"{PATH}/vi:renew", token=token)).status_code == 403
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
    answer = await http.ask("POST", f"{PATH}/ci:renew")
    renewed = ISSUED.check(await answer.get_json())
    assert renewed["role"] == "viewer" and renewed["secret"] != old
    assert (await http.get(PATH, token=old)).status_code == 401
    assert (await http.get(PATH, token=renewed["secret"])).status_code == 200
    assert (await http.ask("POST", f"{PATH}/nobody:renew")).status_code == 404


async def test_a_revoked_token_opens_nothing(http: Browserless) -> None:
    assert (await http.ask("DELETE", f"{PATH}/vi")).status_code == 204
    assert (await http.get(PATH, token="viewer-token")).status_code == 401
    assert (await http.ask("DELETE", f"{PATH}/vi")).status_code == 404


async def test_the_last_administrator_stays(http: Browserless, broker: FakeBroker) -> None:
    answer = await http.ask("DELETE", f"{PATH}/root")
    assert answer.status_code == 400 and "last administrator" in (await answer.get_json())["detail"]


@pytest.mark.parametrize(
    ("name", "role"), [("", "viewer"), ("x" * 65, "viewer"), ("a", "owner"), (7, "viewer"), ("a", None)]
)
async def test_what_is_no_token_is_refused(http: Browserless, name: Any, role: Any) -> None:
    assert (await issue(http, name, role)).status_code == 400
