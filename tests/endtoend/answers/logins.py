"""Logins whose tokens follow SaslHandshake 0 as they are (KIP-43), compared byte by byte."""

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import trio

from broker.protocol.messages.scram_credentials import ScramCredentialUpsertion
from tests.support.hostile import framed
from tests.support.kafka_answers import PATIENCE_S
from tests.support.wire import connect

USER, PASSWORD, SALT, ITERATIONS = b"carol", b"carol-secret", b"salt-of-carol", 4_096
HASHES: Final = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
CLIENT_NONCE: Final = b"r=abcdefgh"

Frame = bytes | Callable[[list[bytes]], bytes]
"""A frame without its size, or how it follows from the answers so far."""


def credentials() -> list[ScramCredentialUpsertion]:
    return [
        ScramCredentialUpsertion(
            USER.decode(), kind, ITERATIONS, SALT, hashlib.pbkdf2_hmac(name, PASSWORD, SALT, ITERATIONS)
        )
        for kind, name in HASHES.values()
    ]


def request(api_key: int, version: int, body: bytes) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, 4) + b"test" + body


def handshake(mechanism: str, version: int = 0) -> bytes:
    return request(17, version, struct.pack(">h", len(mechanism)) + mechanism.encode())


HEARTBEAT: Final = request(12, 0, struct.pack(">hih", 0, 0, 0))
"""Any request, to see that the login has ended; it has INVALID_GROUP_ID."""


def plain(name: bytes, password: bytes, authorization: bytes = b"") -> bytes:
    return b"\0".join((authorization, name, password))


ALICE: Final = plain(b"alice", b"alice-secret")


def first(name: bytes = USER) -> bytes:
    return b"n,,n=" + name + b"," + CLIENT_NONCE


def last(mechanism: str, password: bytes = PASSWORD, check: str = "") -> Frame:
    """The proof, or with `check` something else, as an answer to the server's first message."""
    name = HASHES[mechanism][1]

    def proof(answers: list[bytes]) -> bytes:
        nonce = answers[-1].split(b",")[0]
        without = b"c=" + (check.encode() or b"biws") + b"," + nonce
        signed = b",".join((first().removeprefix(b"n,,"), answers[-1], without))
        key = hmac.digest(hashlib.pbkdf2_hmac(name, password, SALT, ITERATIONS), b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, key).digest(), signed, name)
        mask = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        return without + b",p=" + base64.b64encode(mask)

    return proof


@dataclass(frozen=True)
class Login:
    frames: tuple[Frame, ...]
    differs: str = ""


HIDES_USERS: Final = "Weir answers an unknown user as it does a known one, so that nobody learns which exist"

BINDING: Final = "Kafka does not look whether it is that of the first message, as RFC 5802 wants"

LOGINS: Final = {
    "plain": Login((handshake("PLAIN"), ALICE, HEARTBEAT)),
    "plain, authorized as itself": Login(
        (handshake("PLAIN"), plain(b"alice", b"alice-secret", b"alice"), HEARTBEAT)
    ),
    "plain, authorized as another": Login((handshake("PLAIN"), plain(b"alice", b"alice-secret", b"bob"))),
    "plain, wrong password": Login((handshake("PLAIN"), plain(b"alice", b"wrong"))),
    "plain, unknown user": Login((handshake("PLAIN"), plain(b"nobody", b"wrong"))),
    "plain, no password": Login((handshake("PLAIN"), plain(b"alice", b""))),
    "plain, no separator": Login((handshake("PLAIN"), b"alice")),
    "plain, empty token": Login((handshake("PLAIN"), b"")),
    "unknown mechanism": Login((handshake("NONE"),)),
    "unknown mechanism, then a known one": Login((handshake("NONE"), handshake("PLAIN"))),
    "mechanism without a name": Login((handshake(""),)),
    "two handshakes": Login((handshake("PLAIN"), handshake("PLAIN"))),
    "token as SaslAuthenticate": Login(
        (handshake("PLAIN"), request(36, 0, struct.pack(">i", len(ALICE)) + ALICE))
    ),
    "version 1, token as it is": Login((handshake("PLAIN", 1), ALICE)),
    "token without a handshake": Login((ALICE,)),
    "request without a login": Login((HEARTBEAT,)),
    "request instead of a token": Login((handshake("PLAIN"), HEARTBEAT)),
    "handshake after the login": Login((handshake("PLAIN"), ALICE, handshake("PLAIN"), HEARTBEAT)),
    **{
        f"{mechanism}{name}": Login((handshake(mechanism), *frames), differs)
        for mechanism in HASHES
        for name, frames, differs in (
            ("", (first(), last(mechanism), HEARTBEAT), ""),
            (", wrong password", (first(), last(mechanism, b"wrong")), ""),
            (", wrong channel binding", (first(), last(mechanism, check="eSws")), BINDING),
            (", unknown user", (first(b"nobody"),), HIDES_USERS),
            (", no message", (b"garbage",), ""),
            (", no proof", (first(), b"garbage"), ""),
        )
    },
}


async def answers(port: int, login: Login) -> list[bytes]:
    """Return a comparable form of each answer; the last is b"closed" if the broker closes the connection."""
    client = await connect(port)
    received: list[bytes] = []
    try:
        with trio.fail_after(PATIENCE_S):
            for frame in login.frames:
                sent = frame(received) if callable(frame) else frame
                await client.stream.send_all(framed(sent))
                received.append(await client.receive_frame())
    except (EOFError, trio.BrokenResourceError):
        received.append(b"closed")
    finally:
        await client.stream.aclose()
    return [_comparable(each, received) for each in received]


def _comparable(answer: bytes, received: list[bytes]) -> bytes:
    """Return the answer without the server's nonce and what follows from it, and with sorted mechanisms."""
    if answer.startswith(CLIENT_NONCE):
        nonce, rest = answer.split(b",", 1)
        assert len(nonce) > len(CLIENT_NONCE)
        return rest
    if answer.startswith(b"v="):
        return b"v= and %d bytes" % len(base64.b64decode(answer[2:], validate=True))
    if answer is received[0] and b"PLAIN" in answer:
        (count,) = struct.unpack_from(">i", answer, 6)
        at, names = 10, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", answer, at)
            names.append(answer[at : at + 2 + length])
            at += 2 + length
        return answer[:10] + b"".join(sorted(names)) + answer[at:]
    return answer
