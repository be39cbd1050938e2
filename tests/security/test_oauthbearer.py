"""OAUTHBEARER logins: the client's message, and the handshake of a refused token."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.common.errors import ApiError, ErrorCode
from broker.security.access_tokens import LONGEST_TOKEN, AccessToken, InvalidToken
from broker.security.oauthbearer import LONGEST_MESSAGE, MOST_EXTENSIONS, OAuthBearerLogin
from tests.support.token_issuer import message

STATUS = '{"status":"invalid_token"}'


def read(token: str, wall_ms: int) -> AccessToken:
    if token.startswith("bad"):
        raise InvalidToken("the token is bad")
    return AccessToken(token.partition("~")[0], wall_ms + 5_000)


def login() -> OAuthBearerLogin:
    return OAuthBearerLogin(read)


@pytest.mark.parametrize(
    "sent",
    [
        message("ann"),
        message("ann", "n,a=ann,"),
        message("ann", after="traceId=7\x01region=eu west\x01"),
        b"n,,\x01region=eu\x01auth=bearer   ann\x01\x01",
        message("ann~+/.-_=="),
        b"n,,\x01auth=BEARER ann\x01\x01",
    ],
)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_token_is_all_that_a_login_takes(sent: bytes, kind: type) -> None:
    one = login()
    assert one.step(kind(sent), 7) == b""
    assert (one.name, one.ends_wall_ms, one.refusal) == ("ann", 5_007, "")


def test_an_escaped_authorization_id_is_the_users_name() -> None:
    one = OAuthBearerLogin(lambda token, wall_ms: AccessToken("a,b=c", wall_ms))
    assert one.step(message("x", "n,a=a=2Cb=3Dc,"), 0) == b""
    assert one.name == "a,b=c"


@pytest.mark.parametrize("confirmation", [b"\x01", b"", message("ann"), b"x"])
def test_a_refused_token_is_answered_with_a_status_and_then_the_login_fails(confirmation: bytes) -> None:
    one = login()
    assert one.step(message("bad"), 0).decode() == STATUS
    assert (one.name, one.refusal) == (None, "the token is bad")
    with pytest.raises(ApiError) as failed:
        one.step(confirmation, 0)
    assert (failed.value.code, failed.value.message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, STATUS)
    assert one.name is None


def test_another_authorization_id_than_the_tokens_fails_at_once() -> None:
    one = login()
    with pytest.raises(ApiError, match="authorization id that is different from the token's") as failed:
        one.step(message("ann", "n,a=bob,"), 0)
    assert failed.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert one.name is None and one.refusal


@pytest.mark.parametrize(
    "sent",
    [
        *(b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer ann\x01", b"auth=Bearer ann", b"\xff"),
        *(b"y,,\x01auth=Bearer ann\x01\x01", b"p=tls-unique,,\x01auth=Bearer ann\x01\x01"),
        *(b"n,,\x01auth=Basic ann\x01\x01", b"n,,\x01auth=Bearer\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01"),
        *(b"n,,\x01region=eu\x01\x01", b"n,,\x01auth=Bearer ann\x01auth=Bearer bob\x01\x01"),
        *(b"n,,\x01auth=Bearer ann\x01x\x01\x01", b"n,,\x01auth=Bearer ann\x01\x01\n"),
        *(b"n,a=,\x01auth=Bearer ann\x01\x01", b"n,a=a=b,\x01auth=Bearer ann\x01\x01", b"\0ann\0secret"),
    ],
)
def test_a_message_of_another_form_fails_without_a_reason(sent: bytes) -> None:
    one = login()
    with pytest.raises(ApiError) as failed:
        one.step(sent, 0)
    assert failed.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert failed.value.message.endswith("due to invalid credentials with SASL mechanism OAUTHBEARER")
    assert one.name is None and one.refusal


@pytest.mark.parametrize("length", [LONGEST_TOKEN - 1, LONGEST_TOKEN, LONGEST_TOKEN + 1])
def test_a_token_has_a_limited_length(length: int) -> None:
    one = login()
    response = one.step(message("x" * length), 0)
    assert response.decode() == ("" if length <= LONGEST_TOKEN else STATUS)
    assert one.refusal == ("" if length <= LONGEST_TOKEN else "the token has more than 65536 characters")


@pytest.mark.parametrize("length", [LONGEST_MESSAGE - 1, LONGEST_MESSAGE, LONGEST_MESSAGE + 1])
def test_a_message_has_a_limited_length(length: int) -> None:
    one = login()
    sent = message("ann", after="x=" + "y" * (length - len(message("ann")) - 3) + "\x01")
    assert len(sent) == length
    if length <= LONGEST_MESSAGE:
        assert one.step(sent, 0) == b""
    else:
        with pytest.raises(ApiError):
            one.step(sent, 0)
        assert one.refusal == f"the client's message has more than {LONGEST_MESSAGE} bytes"


@pytest.mark.parametrize("count", [MOST_EXTENSIONS - 1, MOST_EXTENSIONS, MOST_EXTENSIONS + 1])
def test_a_message_has_a_limited_number_of_extensions(count: int) -> None:
    one = login()
    sent = message("ann", after="x=y\x01" * count)
    if count <= MOST_EXTENSIONS:
        assert one.step(sent, 0) == b""
    else:
        with pytest.raises(ApiError):
            one.step(sent, 0)
        assert one.refusal == f"the client's message has more than {MOST_EXTENSIONS} extensions"


@given(st.lists(st.binary(max_size=100) | st.just(message("bad")), max_size=4))
def test_no_random_message_logs_in_or_raises_anything_but_a_refusal(messages: list[bytes]) -> None:
    one = login()
    with suppress(ApiError):
        for each in messages:
            one.step(each, 0)
    assert one.name is None
