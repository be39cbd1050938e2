"""Delegation tokens: listed without the HMACs that are their passwords, and expired; by whom."""

import json
from base64 import b64encode
from pathlib import Path

import pytest

from broker.controller.commands import IssueAdminToken
from broker.controller.delegation_tokens import CreateDelegationToken
from broker.controller.tokens import hashed
from broker.metadata.actor import Role
from broker.security.delegation_tokens import DelegationTokens
from tests.controller.world import World, actor
from tests.webui.conftest import PORT, Browserless
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.http.test_page_routes import csrf_of, sign_in
from tests.webui.log_world import LogWorld
from tests.webui.rows import upstream
from webui.backend import Backend
from webui.http.app import build_app, make_console
from webui.problem import PROBLEM
from webui.rest.delegation_tokens import REFUSED, TOKEN, TOKEN_PAGE
from webui.rest.proof import PRESENT
from webui.tables.json_output import utc

PATH = "/api/v1/delegation-tokens"
DAY_MS = 86_400_000


async def test_a_token_shows_whose_it_is_who_may_renew_it_and_when_it_expires(
    http: Browserless, broker: FakeBroker
) -> None:
    token_id = broker.add_delegation_token("User:ann", "User:bob", "User:eve", requester="User:ops")
    answer = await http.get(f"{PATH}/{token_id}", token="viewer-token")
    row = TOKEN.check(await answer.get_json())
    assert answer.headers["ETag"] == f'"{row["version"]}"'
    assert (row["owner"], row["requester"]) == ("User:ann", "User:ops")
    assert row["renewers"] == ["User:bob", "User:eve"]
    assert row["issued_at"] == utc(broker.now_ms)
    assert row["expires_at"] == utc(broker.now_ms + DAY_MS)
    assert row["max_expires_at"] == utc(broker.now_ms + 7 * DAY_MS)


async def test_tokens_are_listed_searched_and_sorted(http: Browserless, broker: FakeBroker) -> None:
    broker.add_delegation_token("User:carl", max_lifetime_ms=1)
    broker.add_delegation_token("User:ann", "User:scheduler")
    broker.add_delegation_token("User:bob", requester="User:SCHEDULER", max_lifetime_ms=2 * DAY_MS)
    for query, expected in (
        ("", ["User:ann", "User:bob", "User:carl"]),
        ("?order=desc", ["User:carl", "User:bob", "User:ann"]),
        ("?search=scheduler", ["User:ann", "User:bob"]),
        ("?sort=expires", ["User:carl", "User:ann", "User:bob"]),
        ("?sort=max-expires", ["User:carl", "User:bob", "User:ann"]),
    ):
        answer = await http.get(f"{PATH}{query}", token="viewer-token")
        listed = TOKEN_PAGE.check(await answer.get_json())["items"]
        assert [row["owner"] for row in listed] == expected, query


async def test_a_list_continues_at_its_cursor(http: Browserless, broker: FakeBroker) -> None:
    for owner in ("User:a", "User:b", "User:c"):
        broker.add_delegation_token(owner)
    first = await (await http.get(f"{PATH}?limit=2")).get_json()
    rest = await (await http.get(f"{PATH}?limit=2&cursor={first['next']}")).get_json()
    assert [row["owner"] for row in first["items"] + rest["items"]] == ["User:a", "User:b", "User:c"]
    assert rest["next"] is None


async def test_a_token_is_expired_and_gone(http: Browserless, broker: FakeBroker) -> None:
    token_id = broker.add_delegation_token()
    before = await http.get(f"{PATH}/{token_id}")
    answer = await http.ask("DELETE", f"{PATH}/{token_id}", If_Match=before.headers["ETag"])
    assert (answer.status_code, await answer.get_data()) == (204, b"")
    assert broker.metadata.image.delegation_tokens == {}
    for method in ("GET", "DELETE"):
        again = await http.ask(method, f"{PATH}/{token_id}")
        PROBLEM.check(await again.get_json())
        assert again.status_code == 404


async def test_an_expired_token_is_listed_until_it_is_removed(http: Browserless, broker: FakeBroker) -> None:
    token_id = broker.add_delegation_token(max_lifetime_ms=1)
    broker.now_ms += 2
    assert (await http.get(f"{PATH}/{token_id}")).status_code == 200
    assert (await http.ask("DELETE", f"{PATH}/{token_id}")).status_code == 204


async def test_a_token_that_was_renewed_meanwhile_stays(http: Browserless, broker: FakeBroker) -> None:
    token_id = broker.add_delegation_token()
    seen = (await http.get(f"{PATH}/{token_id}")).headers["ETag"]
    broker.renew_delegation_token(token_id, 5_000)
    answer = await http.ask("DELETE", f"{PATH}/{token_id}", If_Match=seen)
    problem = REFUSED.check(await answer.get_json())
    assert answer.status_code == 412
    assert problem["current"]["expires_at"] == utc(broker.now_ms + 5_000)
    assert list(broker.metadata.image.delegation_tokens) == [token_id]


@pytest.mark.parametrize("tag", ["1", '"x"', "*", '"-1"'])
async def test_an_invalid_if_match_expires_nothing(http: Browserless, broker: FakeBroker, tag: str) -> None:
    token_id = broker.add_delegation_token()
    answer = await http.ask("DELETE", f"{PATH}/{token_id}", If_Match=tag)
    assert answer.status_code in (400, 412)
    assert list(broker.metadata.image.delegation_tokens) == [token_id]


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
async def test_only_administrators_expire_tokens(http: Browserless, broker: FakeBroker, token: str) -> None:
    token_id = broker.add_delegation_token()
    answer = await http.ask("DELETE", f"{PATH}/{token_id}", token=token)
    problem = PROBLEM.check(await answer.get_json())
    assert answer.status_code == 403
    assert "requires the role admin" in problem["detail"]
    assert list(broker.metadata.image.delegation_tokens) == [token_id]


async def test_a_session_alone_expires_no_token(http: Browserless, broker: FakeBroker) -> None:
    token_id = broker.add_delegation_token()
    cookie = await sign_in(http)
    headers = {"Cookie": cookie, "X_CSRF_Token": await csrf_of(http, cookie)}
    for secret, expected in (("", 403), ("wrong", 403), ("admin-token", 204)):
        proof = {PRESENT.replace("-", "_"): b64encode(secret.encode()).decode()} if secret else {}
        answer = await http.ask("DELETE", f"{PATH}/{token_id}", token=None, **headers, **proof)
        assert answer.status_code == expected
        assert (token_id in broker.metadata.image.delegation_tokens) is (expected == 403)


@pytest.mark.parametrize("path", [PATH, f"{PATH}/x"])
async def test_without_a_secret_key_there_are_none(http: Browserless, broker: FakeBroker, path: str) -> None:
    broker.metadata = World()
    answer = await http.get(path)
    problem = PROBLEM.check(await answer.get_json())
    assert (answer.status_code, problem["code"]) == (409, "DELEGATION_TOKEN_AUTH_DISABLED")
    assert "delegation.token.secret.key" in problem["detail"]


@pytest.mark.parametrize("path", [PATH, f"{PATH}/x"])
async def test_at_a_gateway_they_are_the_upstream_clusters(
    http: Browserless, broker: FakeBroker, path: str
) -> None:
    broker.upstream_row = upstream()
    answer = await http.get(path)
    assert (answer.status_code, (await answer.get_json())["type"]) == (404, "urn:weir:problem:not-served")


async def test_no_answer_has_an_hmac_and_the_trail_names_who_expired_a_token(tmp_path: Path) -> None:
    key = "the key of all HMACs"
    world = LogWorld(tmp_path, f"delegation.token.secret.key={key}")
    try:
        create = CreateDelegationToken("User:ann", (), -1, world.clock.wall_ms())
        token_id = (await world.control.apply(create, actor())).token_id
        http = await console_of(world)
        hmac = DelegationTokens(key).hmac(token_id)
        answers = [
            await http.get(PATH, token="secret"),
            await http.get(f"{PATH}/{token_id}", token="secret"),
            await http.ask("DELETE", f"{PATH}/{token_id}", token="secret"),
            await http.get("/api/v1/audit", token="secret"),
        ]
        texts = [(await answer.get_data()).decode() for answer in answers]
        assert [answer.status_code for answer in answers] == [200, 200, 204, 200]
        for secret in (hmac.hex(), b64encode(hmac).decode(), key):
            assert all(secret not in text for text in texts)
        removed = [row for row in json.loads(texts[-1])["items"] if row["entity"] == token_id][:2]
        assert {(row["actor"], row["origin"], row["new"]) for row in removed} == {("root", "rest", None)}
    finally:
        world.close()


async def console_of(world: LogWorld) -> Browserless:
    """The console of a real control, where "secret" is an administrator's token."""
    await world.control.apply(IssueAdminToken("root", Role.ADMIN, "secret"), actor())
    views = world.views
    backend = Backend(
        world.control,
        views,
        hashed,
        lambda: "",
        lambda: True,
    )
    app = build_app(make_console(backend, console_config(), PORT))
    return Browserless(app.test_client(use_cookies=False))
