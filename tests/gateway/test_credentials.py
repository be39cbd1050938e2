"""A client has the principal that the upstream broker has accepted, and no other."""

import base64
import json
import struct

import pytest

from broker.common.errors import ErrorCode, ProtocolViolation
from broker.common.principal import ANONYMOUS
from broker.gateway.logins import AcceptedLogin, SaslObserver
from broker.protocol.api_key import ApiKey
from broker.protocol.codec import encode_request
from broker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from broker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.gateway.frames import frame_of
from tests.support.random_messages import RandomMessages

FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
FINAL = b"c=biws,r=abcdef,p=c2ln"
CHALLENGE = b"r=abcdef,s=c2FsdA==,i=4096"
SIGNATURE = b"v=c2ln"


class Talk:
    """A client and an upstream broker whose frames an observer sees."""

    def __init__(self, version=2):
        self.version = version
        self.observer = SaslObserver()

    def ask(self, message, version):
        frame = b"".join(encode_request(message.API_KEY, version)(message, 7, "client"))[4:]
        self.observer.request(frame)

    def handshake(self, mechanism):
        self.ask(SaslHandshakeRequest(mechanism), 1)

    def authenticate(self, token):
        self.ask(SaslAuthenticateRequest(token), self.version)

    def agree(self, error=0):
        response = frame_of(SaslHandshakeResponse(error, ["PLAIN"]), 1)
        return self.observer.response(ApiKey.SASL_HANDSHAKE, 1, response)

    def answer(self, reply=b"", error=0, lifetime_ms=0):
        message = SaslAuthenticateResponse(error, None, reply, lifetime_ms)
        return self.observer.response(ApiKey.SASL_AUTHENTICATE, self.version, frame_of(message, self.version))

    def login(self, mechanism, *steps):
        """What the observer says after each step of (token, reply)."""
        self.handshake(mechanism)
        assert self.agree() is None
        found = []
        for token, reply in steps:
            self.authenticate(token)
            found.append(self.answer(reply))
        return found


def token_of(claims, *, body=None):
    payload = json.dumps(claims).encode() if body is None else body
    return b".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"none"}', payload, b"signature")
    )


def bearer(token, authorization_id=b""):
    return b"n," + authorization_id + b",\1auth=Bearer " + token + b"\1\1"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_plain_is_complete_in_one_step(version):
    assert Talk(version).login("PLAIN", (b"\0alice\0secret", b"")) == [AcceptedLogin("alice", "PLAIN")]


@pytest.mark.parametrize(("version", "lifetime"), [(0, 0), (1, 3_600_000), (2, 3_600_000)])
def test_the_session_has_the_lifetime_that_the_broker_gives_it(version, lifetime):
    talk = Talk(version)
    talk.handshake("PLAIN")
    talk.agree()
    talk.authenticate(b"alice\0alice\0secret")
    assert talk.answer(lifetime_ms=3_600_000) == AcceptedLogin("alice", "PLAIN", lifetime)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"n,,n=alice,r=abc", "alice"),
        (b"n,a=alice,n=alice,r=abc", "alice"),
        (b"n,,m=x,n=alice,r=abc", "alice"),
        (b"n,a=alice,m=x,n=alice,r=abc,other=1", "alice"),
        (b"n,,n=a=2Cb=3Dc=3D2C,r=abc", "a,b=c=2C"),
        (b"n,,n=\xc3\xbc,r=abc", "ü"),
        (b"n,,n=alice,r=abc,tokenauth=false", "alice"),
        (b"n,,n=alice,r=tokenauth=true", "alice"),
    ],
)
def test_scram_is_complete_with_the_servers_signature(mechanism, first, name):
    steps = Talk().login(mechanism, (first, CHALLENGE), (FINAL, SIGNATURE))
    assert steps == [None, AcceptedLogin(name, mechanism)]


@pytest.mark.parametrize(
    "extension", [b",tokenauth=true", b",tokenauth=TRUE", b",tokenauth=false,tokenauth=true"]
)
def test_a_delegation_token_is_not_its_owners_name(extension):
    first = b"n,,n=token-id,r=abc" + extension
    *_, login = Talk().login("SCRAM-SHA-256", (first, CHALLENGE), (FINAL, SIGNATURE))
    assert login == AcceptedLogin(
        ANONYMOUS, "SCRAM-SHA-256", 0, "it is that of the owner of a delegation token"
    )


@pytest.mark.parametrize("first", [b"n,,x=alice,r=abc", b"n", b"n,", b"n,,", b"n,,m=x", b"n,,m=x,r=abc"])
def test_scram_without_a_name_is_unknown(first):
    *_, login = Talk().login("SCRAM-SHA-256", (first, CHALLENGE), (FINAL, SIGNATURE))
    assert login == AcceptedLogin(ANONYMOUS, "SCRAM-SHA-256", 0, "its message is malformed")


def test_the_second_message_of_scram_claims_nothing():
    *_, login = Talk().login("SCRAM-SHA-256", (FINAL, SIGNATURE))
    assert login == AcceptedLogin(ANONYMOUS, "SCRAM-SHA-256", 0, "it claimed no name")


def test_the_subject_of_a_bearer_token_counts_after_the_broker_accepted_it():
    steps = Talk().login("OAUTHBEARER", (bearer(token_of({"sub": "alice", "scope": ["a"]})), b""))
    assert steps == [AcceptedLogin("alice", "OAUTHBEARER")]


def test_a_refused_bearer_token_is_answered_with_a_challenge():
    talk = Talk()
    token = bearer(token_of({"sub": "alice"}))
    assert talk.login("OAUTHBEARER", (token, b'{"status":"invalid_token"}')) == [None]
    talk.authenticate(b"\1")
    assert talk.answer(error=FAILED) is None


def test_the_authorization_id_of_a_bearer_token_is_the_principal():
    token = bearer(token_of({"sub": "id-7", "email": "alice@example"}), b"a=alice@example")
    assert Talk().login("OAUTHBEARER", (token, b"")) == [AcceptedLogin("alice@example", "OAUTHBEARER")]


def test_of_two_bearer_tokens_the_last_counts_as_in_kafka():
    message = bearer(token_of({"sub": "alice"}))[:-1] + b"auth=bearer  " + token_of({"sub": "bob"}) + b"\1\1"
    assert Talk().login("OAUTHBEARER", (message, b"")) == [AcceptedLogin("bob", "OAUTHBEARER")]


@pytest.mark.parametrize(
    "token",
    [
        b"opaque",
        b"a.b.c.d",
        b"..",
        b"\xff.\xff.\xff",
        token_of({"sub": 7}),
        token_of({"sub": ""}),
        token_of({"name": "alice"}),
        token_of(["sub"]),
        token_of(None, body=b"[" * 100_000),
        token_of(None, body=b'{"a":' + b"[" * 100_000),
        token_of(None, body=b'{"sub":"\xff"}'),
        token_of(None, body=b""),
    ],
)
def test_a_token_without_a_readable_subject_is_unknown(token):
    expected = AcceptedLogin(ANONYMOUS, "OAUTHBEARER", 0, "its token names no subject")
    assert Talk().login("OAUTHBEARER", (bearer(token), b"")) == [expected]


def test_kerberos_is_complete_when_the_broker_has_nothing_more_to_say():
    steps = Talk().login("GSSAPI", (b"ticket", b"reply"), (b"", b"layers"), (b"layer", b""))
    assert steps == [None, None, AcceptedLogin(ANONYMOUS, "GSSAPI", 0, "GSSAPI hides it")]


def test_a_mechanism_that_is_not_known_is_complete_in_one_step():
    steps = Talk().login("AWS_MSK_IAM", (b"{}", b'{"request-id":"1"}'))
    assert steps == [AcceptedLogin(ANONYMOUS, "AWS_MSK_IAM", 0, "AWS_MSK_IAM hides it")]


@pytest.mark.parametrize("error", [FAILED, ErrorCode.ILLEGAL_SASL_STATE, -1])
def test_a_refused_login_has_no_principal(error):
    talk = Talk()
    talk.handshake("PLAIN")
    talk.agree()
    talk.authenticate(b"\0alice\0wrong")
    assert talk.answer(error=error) is None


def test_a_refused_mechanism_has_no_principal():
    talk = Talk()
    talk.handshake("PLAIN")
    talk.authenticate(b"\0alice\0secret")
    assert talk.agree(ErrorCode.UNSUPPORTED_SASL_MECHANISM) is None
    assert talk.answer() is None


def test_pipelined_logins_do_not_borrow_each_others_name():
    talk = Talk()
    talk.handshake("PLAIN")
    talk.authenticate(b"\0alice\0secret")
    talk.authenticate(b"\0admin\0guess")
    talk.agree()
    assert talk.answer() == AcceptedLogin("alice", "PLAIN")
    assert talk.answer(error=ErrorCode.ILLEGAL_SASL_STATE) is None


def test_a_claim_of_a_failed_login_is_forgotten():
    talk = Talk()
    talk.login("SCRAM-SHA-256", (b"n,,n=admin,r=abc", CHALLENGE))
    talk.authenticate(FINAL)
    talk.answer(error=FAILED)
    talk.authenticate(FINAL)
    assert talk.answer(SIGNATURE) == AcceptedLogin(ANONYMOUS, "SCRAM-SHA-256", 0, "it claimed no name")


def test_a_client_can_log_in_again_on_the_same_connection():
    talk = Talk()
    assert talk.login("PLAIN", (b"\0alice\0secret", b"")) == [AcceptedLogin("alice", "PLAIN")]
    again = talk.login("SCRAM-SHA-512", (b"n,,n=alice,r=abc", CHALLENGE), (FINAL, SIGNATURE))
    assert again == [None, AcceptedLogin("alice", "SCRAM-SHA-512")]


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (b"\0al\xffce\0secret", "al\N{REPLACEMENT CHARACTER}ce"),
        (b"alice\0secret", None),
        (b"\0a\0b\0c", None),
    ],
)
def test_plain_is_read_as_java_reads_it(message, name):
    (login,) = Talk().login("PLAIN", (message, b""))
    assert login == (
        AcceptedLogin(name, "PLAIN")
        if name
        else AcceptedLogin(ANONYMOUS, "PLAIN", 0, "its message is malformed")
    )


def test_no_password_or_token_is_kept():
    talk = Talk()
    talk.handshake("PLAIN")
    talk.authenticate(b"\0alice\0secret-word")
    state = repr([getattr(talk.observer, name) for name in SaslObserver.__slots__])
    assert "alice" in state and "secret-word" not in state


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
@pytest.mark.parametrize("version", [1, 2])
def test_truncated_and_damaged_frames_are_violations_or_harmless(key, version):
    version = min(version, 1) if key == ApiKey.SASL_HANDSHAKE else version
    messages = RandomMessages(seed=version)
    for _ in range(40):
        request = b"".join(encode_request(key, version)(messages.request(key, version), 7, "client"))
        response = frame_of(messages.response(key, version), version)
        for size in range(4, len(request)):
            with pytest.raises(ProtocolViolation):
                SaslObserver().request(request[4:size])
        for size in range(len(response)):
            observer = SaslObserver()
            observer.request(request[4:])
            with pytest.raises(ProtocolViolation):
                observer.response(key, version, response[:size])
        changed = bytearray(messages.flipped(request)[4:])
        struct.pack_into(">hh", changed, 0, key, version)
        observer = SaslObserver()
        try:
            observer.request(changed)
            observer.response(key, version, messages.flipped(b"size" + response)[4:])
        except ProtocolViolation:
            pass


@pytest.mark.parametrize("name", [" alice", "alice\u00a0", "al\nice", "alice\u2028", "al\u200bice"])
def test_a_subject_that_is_not_plain_is_unknown(name):
    """The upstream broker may have removed the spaces, and know another user."""
    expected = AcceptedLogin(ANONYMOUS, "OAUTHBEARER", 0, "its token's subject is not plain")
    assert Talk().login("OAUTHBEARER", (bearer(token_of({"sub": name})), b"")) == [expected]
