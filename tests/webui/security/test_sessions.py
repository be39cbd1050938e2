"""Browser sessions and their expiry."""

import pytest

from tests.webui.fake_access import ADMIN, VIEWER
from webui.security.sessions import (
    IDLE,
    LOGGED_OUT,
    MAX_REASONS,
    MAX_SESSIONS,
    REPLACED,
    TOO_OLD,
    Sessions,
)

IDLE_MS, MAX_MS = 1_000, 5_000


@pytest.fixture
def sessions() -> Sessions:
    return Sessions(IDLE_MS, MAX_MS)


def test_a_session_is_found_by_its_secret_and_by_nothing_else(sessions: Sessions) -> None:
    secret = sessions.open(ADMIN, 0)[0]
    found = sessions.find(secret, 1)
    assert found is not None and found.token == ADMIN
    assert sessions.find(secret[:-1], 1) is None and sessions.find("", 1) is None


def test_secrets_have_256_bits_and_are_never_the_same(sessions: Sessions) -> None:
    secrets = {sessions.open(ADMIN, 0)[0] for _ in range(100)}
    assert len(secrets) == 100 and all(len(secret) == 43 for secret in secrets)


def test_nothing_that_is_kept_would_sign_any_user_in(sessions: Sessions) -> None:
    secret, session = sessions.open(ADMIN, 0)
    assert [(len(key), secret.encode() in key) for key in sessions._by_hash] == [(32, False)]
    assert secret not in repr(session) and session.csrf != secret


@pytest.mark.parametrize(("idle_ms", "there"), [(IDLE_MS - 1, True), (IDLE_MS, False), (IDLE_MS + 1, False)])
def test_it_ends_when_idle(sessions: Sessions, idle_ms: int, there: bool) -> None:
    secret = sessions.open(ADMIN, 0)[0]
    assert (sessions.find(secret, idle_ms) is not None) is there


def test_use_keeps_it_until_its_longest_time_is_over(sessions: Sessions) -> None:
    secret = sessions.open(ADMIN, 0)[0]
    for now in range(500, MAX_MS, 500):
        assert sessions.find(secret, now) is not None
    assert sessions.find(secret, MAX_MS - 1) is not None
    assert sessions.find(secret, MAX_MS) is None


def test_an_ended_one_is_forgotten(sessions: Sessions) -> None:
    secret = sessions.open(ADMIN, 0)[0]
    sessions.find(secret, IDLE_MS)
    assert len(sessions) == 0


def test_all_sessions_of_one_token_or_of_every_token_end_together(sessions: Sessions) -> None:
    mine = [sessions.open(ADMIN, 0)[0] for _ in range(3)]
    other = sessions.open(VIEWER, 0)[0]
    assert sessions.close_all(ADMIN.name, 1) == 3
    assert [sessions.find(each, 1) for each in mine] == [None] * 3 and sessions.find(other, 1) is not None
    assert sessions.close_all(ADMIN.name, 1) == 0
    sessions.open(ADMIN, 1)
    assert sessions.close_all(None, 2) == 2 and len(sessions) == 0


def test_of_those_that_end_together_only_the_open_ones_count(sessions: Sessions) -> None:
    sessions.open(ADMIN, 0)
    assert sessions.close_all(ADMIN.name, IDLE_MS) == 0 and len(sessions) == 0


def test_signing_out_ends_it_at_once(sessions: Sessions) -> None:
    secret = sessions.open(ADMIN, 0)[0]
    sessions.close(secret)
    sessions.close("never opened")
    assert sessions.find(secret, 0) is None


def test_only_its_own_csrf_token_is_owned(sessions: Sessions) -> None:
    one, other = sessions.find(sessions.open(ADMIN, 0)[0], 0), sessions.find(sessions.open(VIEWER, 0)[0], 0)
    assert one is not None and other is not None
    assert one.owns(one.csrf)
    assert not one.owns(other.csrf) and not one.owns("") and not one.owns("é")


def test_the_one_that_is_idle_longest_is_evicted(sessions: Sessions) -> None:
    first, second = sessions.open(ADMIN, 0)[0], sessions.open(ADMIN, 0)[0]
    for _ in range(MAX_SESSIONS - 2):
        sessions.open(ADMIN, 2)[0]
    sessions.find(first, 1)
    sessions.open(ADMIN, 3)[0]
    assert len(sessions) == MAX_SESSIONS
    assert sessions.find(first, 3) is not None and sessions.find(second, 3) is None


@pytest.mark.parametrize(("opened", "first_is_open"), [(2, True), (3, True), (4, False)])
def test_of_one_token_the_one_that_is_idle_longest_is_evicted(opened: int, first_is_open: bool) -> None:
    sessions = Sessions(IDLE_MS, MAX_MS, max_per_token=3)
    other = sessions.open(VIEWER, 0)[0]
    first, *_ = [sessions.open(ADMIN, at)[0] for at in range(1, opened + 1)]
    assert (sessions.find(first, 9) is not None) is first_is_open
    assert sessions.find(other, 9) is not None and len(sessions) == 1 + min(opened, 3)


def test_ended_ones_are_evicted_first(sessions: Sessions) -> None:
    for _ in range(MAX_SESSIONS):
        sessions.open(ADMIN, 0)[0]
    sessions.open(ADMIN, IDLE_MS)[0]
    assert len(sessions) == 1


def test_it_is_known_why_a_session_ended(sessions: Sessions) -> None:
    idle, old, all_out, own = (sessions.open(token, 0)[0] for token in (ADMIN, ADMIN, ADMIN, VIEWER))
    assert sessions.reason(idle) == "" == sessions.reason("unknown")
    for now_ms in range(0, MAX_MS, IDLE_MS - 1):
        sessions.find(old, now_ms)
        sessions.find(all_out, now_ms)
    assert sessions.find(idle, IDLE_MS) is None and sessions.reason(idle) == IDLE
    assert sessions.find(old, MAX_MS) is None and sessions.reason(old) == TOO_OLD
    recent = sessions.open(VIEWER, MAX_MS)[0]
    sessions.close_all(VIEWER.name, MAX_MS)
    assert sessions.reason(recent) == LOGGED_OUT
    closed = sessions.open(VIEWER, MAX_MS)[0]
    sessions.close(closed)
    assert sessions.reason(closed) == "" == sessions.reason(own)


def test_the_longest_idle_session_of_a_token_is_told_to_be_replaced() -> None:
    sessions = Sessions(IDLE_MS, MAX_MS, max_per_token=1)
    first = sessions.open(ADMIN, 0)[0]
    sessions.open(ADMIN, 1)
    assert sessions.reason(first) == REPLACED


def test_reasons_are_kept_for_so_many_sessions(sessions: Sessions) -> None:
    ended = [sessions.open(ADMIN, 0)[0] for _ in range(MAX_REASONS)]
    for secret in ended:
        sessions.close(secret, IDLE)
    assert sessions.reason(ended[0]) == IDLE
    one_more = sessions.open(ADMIN, 0)[0]
    sessions.close(one_more, IDLE)
    assert (sessions.reason(ended[0]), sessions.reason(ended[1]), sessions.reason(one_more)) == (
        "",
        IDLE,
        IDLE,
    )
