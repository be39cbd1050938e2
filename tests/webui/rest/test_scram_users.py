"""SCRAM users: listed without what is derived from their passwords, created, replaced, deleted; by whom."""

import logging
import threading
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest

from broker.controller.scram import LONGEST_USER
from broker.security.scram import MECHANISMS, keys_of
from tests.webui.conftest import Browserless
from tests.webui.fakes import FakeBroker
from tests.webui.http.test_page_routes import csrf_of, sign_in
from webui.rest import scram_users
from webui.rest.proof import PRESENT
from webui.rest.scram_users import CREDENTIAL, CREDENTIAL_PAGE, LONGEST_PASSWORD, REFUSED

PATH = "/api/v1/scram-users"
ANN = f"{PATH}/SCRAM-SHA-512/ann"
PASSWORD = "hunter2 and more"


def put(http: Browserless, path: str = ANN, password: Any = PASSWORD, **rest: Any) -> Any:
    body = {"password": password} | rest.pop("body", {})
    return http.ask("PUT", path, body=body, **rest)


async def test_a_user_is_created_replaced_and_deleted(http: Browserless, broker: FakeBroker) -> None:
    made = await put(http, body={"iterations": 5_000})
    row = CREDENTIAL.check(await made.get_json())
    assert made.status_code == 201 and made.headers["ETag"] == f'"{row["version"]}"'
    assert (row["user"], row["mechanism"], row["iterations"]) == ("ann", "SCRAM-SHA-512", 5_000)
    first = broker.metadata.image.scram["ann"]["SCRAM-SHA-512"]
    replaced = await put(http)
    row = CREDENTIAL.check(await replaced.get_json())
    assert (replaced.status_code, row["iterations"]) == (200, 8_192)
    second = broker.metadata.image.scram["ann"]["SCRAM-SHA-512"]
    assert first.salt != second.salt and first.stored_key != second.stored_key
    assert (await http.get(ANN)).headers["ETag"] == replaced.headers["ETag"]
    deleted = await http.ask("DELETE", ANN)
    assert (deleted.status_code, await deleted.get_data()) == (204, b"")
    assert broker.metadata.image.scram == {}
    assert [(await http.ask(method, ANN)).status_code for method in ("GET", "DELETE")] == [404, 404]


async def test_the_password_is_stored_as_kafkas_tools_store_it(http: Browserless, broker: FakeBroker) -> None:
    import hashlib

    await put(http, password="pässword", body={"iterations": 4_096})
    stored = broker.metadata.image.scram["ann"]["SCRAM-SHA-512"]
    salted = hashlib.pbkdf2_hmac("sha512", "pässword".encode(), stored.salt, 4_096)
    assert (stored.stored_key, stored.server_key) == keys_of(MECHANISMS["SCRAM-SHA-512"], salted)


async def test_users_are_listed_searched_and_sorted(http: Browserless, broker: FakeBroker) -> None:
    for user, mechanism in (("bob", "SCRAM-SHA-512"), ("ann", "SCRAM-SHA-256"), ("bob", "SCRAM-SHA-256")):
        broker.add_scram(user, mechanism)
    for query, expected in (
        ("", ["ann SCRAM-SHA-256", "bob SCRAM-SHA-256", "bob SCRAM-SHA-512"]),
        ("?search=BO", ["bob SCRAM-SHA-256", "bob SCRAM-SHA-512"]),
        ("?filter=scram-sha-256&order=desc", ["bob SCRAM-SHA-256", "ann SCRAM-SHA-256"]),
    ):
        answer = await http.get(f"{PATH}{query}", token="viewer-token")
        listed = CREDENTIAL_PAGE.check(await answer.get_json())["items"]
        assert [f"{row['user']} {row['mechanism']}" for row in listed] == expected


async def test_what_is_derived_from_a_password_is_in_no_response_and_in_no_log(
    http: Browserless, broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [await put(http), await http.get(ANN), await http.get(PATH), await http.get("/api/v1/audit")]
    stored = broker.metadata.image.scram["ann"]["SCRAM-SHA-512"]
    secrets = [PASSWORD, stored.salt.hex(), stored.stored_key.hex(), stored.server_key.hex()]
    texts = [caplog.text, *[(await answer.get_data()).decode() for answer in answers]]
    assert [secret for secret in secrets for text in texts if secret in text] == []


async def test_a_password_is_hashed_in_a_thread(
    http: Browserless, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    salt = scram_users.upsertion_of

    def watched(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return salt(*given)

    monkeypatch.setattr(scram_users, "upsertion_of", watched)
    await put(http)
    assert len(threads) == 1 and threads != [threading.main_thread().name]
    for refused in ({"token": "editor-token"}, {"body": {"iterations": 1}}, {"If_Match": '"99"'}):
        assert (await put(http, **refused)).status_code in (400, 403, 412)
    assert len(threads) == 1, "nothing is hashed for a refused request"


@pytest.mark.parametrize("token", ["viewer-token", "editor-token"])
async def test_only_administrators_change_users(http: Browserless, broker: FakeBroker, token: str) -> None:
    broker.add_scram("ann", "SCRAM-SHA-512")
    before = broker.metadata.image.version
    assert (await put(http, token=token)).status_code == 403
    assert (await http.ask("DELETE", ANN, token=token)).status_code == 403
    assert broker.metadata.image.version == before


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "is missing"),
        ({"password": ""}, 400, "1 to 1024 characters"),
        ({"password": "x" * LONGEST_PASSWORD}, 201, ""),
        ({"password": "x" * (LONGEST_PASSWORD + 1)}, 400, "1 to 1024 characters"),
        ({"password": 5}, 400, "must be a string"),
        ({"password": "x", "iterations": 4_095}, 400, "Too few iterations"),
        ({"password": "x", "iterations": 4_096}, 201, ""),
        ({"password": "x", "iterations": 16_384}, 201, ""),
        ({"password": "x", "iterations": 16_385}, 400, "Too many iterations"),
        ({"password": "x", "iterations": "many"}, 400, "must be a"),
        ({"password": "x", "salt": "x"}, 400, "unknown field"),
    ],
)
async def test_invalid_credentials_are_refused(
    http: Browserless, broker: FakeBroker, body: Any, status: int, words: str
) -> None:
    answer = await http.ask("PUT", ANN, body=body)
    assert answer.status_code == status
    assert words in (await answer.get_data()).decode()
    assert bool(broker.metadata.image.scram) is (status == 201)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{PATH}/SCRAM-SHA-1/ann", 400),
        (f"{PATH}/SCRAM-SHA-256/", 404),
        (f"{PATH}/SCRAM-SHA-256/{'x' * LONGEST_USER}", 201),
        (f"{PATH}/SCRAM-SHA-256/{'x' * (LONGEST_USER + 1)}", 400),
        (f"{PATH}/SCRAM-SHA-256/{quote('a/b ü,=', safe='')}", 201),
    ],
)
async def test_users_have_any_name_of_bounded_length(http: Browserless, path: str, status: int) -> None:
    assert (await put(http, path)).status_code == status


async def test_a_concurrent_change_is_shown_and_not_overwritten(
    http: Browserless, broker: FakeBroker
) -> None:
    made = await put(http, If_None_Match="*")
    assert made.status_code == 201
    broker.add_scram("ann", "SCRAM-SHA-512", "another")
    before = broker.metadata.image.version
    for answer in (
        await put(http, If_Match=made.headers["ETag"]),
        await put(http, If_None_Match="*"),
        await http.ask("DELETE", ANN, If_Match=made.headers["ETag"]),
    ):
        problem = REFUSED.check(await answer.get_json())
        assert (answer.status_code, problem["current"]["iterations"]) == (412, 4_096)
    assert broker.metadata.image.version == before


async def test_a_session_alone_changes_no_user(http: Browserless, broker: FakeBroker) -> None:
    broker.add_scram("ann", "SCRAM-SHA-512")
    before = broker.metadata.image.version
    cookie = await sign_in(http)
    headers = {"Cookie": cookie, "X_CSRF_Token": await csrf_of(http, cookie)}
    for secret, expected in (("", 403), ("wrong", 403), ("admin-token", 200)):
        proof = {PRESENT.replace("-", "_"): b64encode(secret.encode()).decode()} if secret else {}
        answer = await put(http, token=None, **headers, **proof)
        assert answer.status_code == expected
        assert (broker.metadata.image.version == before) is (expected == 403)
