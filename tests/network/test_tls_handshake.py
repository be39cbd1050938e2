"""TLS handshakes over a socket pair: versions, certificates, partial input, and error messages."""

import contextlib
import socket
import ssl
import struct

import pytest

from broker.network.connection.receive import EndOfStream
from broker.network.connection.tls_socket import TlsError
from tests.support.certificates import certificates
from tests.support.hostile import framed
from tests.support.tls_peer import Peer, config, connected, fill_kernel, pair, shake


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_are_spoken(version: str) -> None:
    with connected(config(enabled_protocols=(version,))) as (tls, peer):
        assert tls.cipher()[1] == version
        peer.tls.write(b"hello")
        peer.push()
        assert tls.recv_into(into := bytearray(10)) == 5
        assert into[:5] == b"hello"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_older_versions_are_not() -> None:
    with pair() as (tls, peer):
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_1
        ancient = Peer(old, peer.sock)
        ancient.step()
        with pytest.raises(TlsError, match="unsupported protocol"):
            tls.handshake()
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            ancient.step()


def test_a_handshake_byte_by_byte_is_one() -> None:
    with pair() as (tls, peer):
        is_done = False
        for _ in range(10):
            peer.pull()
            with contextlib.suppress(ssl.SSLWantReadError):
                peer.tls.do_handshake()
            data = peer.outgoing.read()
            for at in range(len(data)):
                peer.sock.send(data[at : at + 1])
                is_done = tls.handshake()
            if is_done:
                break
        assert is_done


def test_a_handshake_whose_answer_does_not_leave_is_blocked_until_it_does() -> None:
    with pair() as (tls, peer):
        peer.step()
        stuffing = fill_kernel(tls)
        assert not tls.handshake() and tls.is_blocked
        drained = 0
        while drained < stuffing:
            drained += len(peer.sock.recv(min(65_536, stuffing - drained)))
        assert tls.flush() and not tls.is_blocked
        shake(tls, peer)


@pytest.mark.parametrize(
    "received", [b"GET / HTTP/1.1\r\n\r\n", framed(b"\0\x12\0\3" + b"\0" * 20), b"\0" * 100]
)
def test_plaintext_is_refused_in_words(received: bytes) -> None:
    with pair() as (tls, peer):
        peer.sock.send(received)
        with pytest.raises(TlsError, match="the TLS handshake failed"):
            tls.handshake()


def test_a_client_hello_that_announces_16_mb_is_refused_at_its_head() -> None:
    """The shape of CVE-2026-45416: nothing is set aside for what is only announced."""
    with pair() as (tls, peer):
        hello = b"\1\xff\xff\xff" + b"\3\3" + bytes(58)
        peer.sock.send(b"\x16\3\1" + struct.pack(">H", len(hello)) + hello)
        with pytest.raises(TlsError):
            tls.handshake()


def test_a_peer_that_leaves_within_the_handshake_is_an_end_and_no_failure() -> None:
    with pair() as (tls, peer):
        peer.step()
        assert not tls.handshake()
        peer.sock.shutdown(socket.SHUT_WR)
        with pytest.raises(EndOfStream):
            tls.handshake()


@pytest.mark.parametrize(
    ("auth", "who", "fits"),
    [
        ("none", "stranger", True),
        ("requested", None, True),
        ("requested", "alice", True),
        ("requested", "stranger", False),
        ("required", None, False),
        ("required", "alice", True),
        ("required", "stranger", False),
    ],
)
def test_a_client_certificate_is_ignored_asked_for_or_demanded(
    auth: str, who: str | None, fits: bool
) -> None:
    shown = getattr(certificates(), who) if who else None
    with pair(config(client_auth=auth), shown) as (tls, peer):
        if fits:
            shake(tls, peer)
            assert (tls.peer_certificate() is not None) == (who == "alice" and auth != "none")
        else:
            with pytest.raises(TlsError, match=r"certificate"):
                shake(tls, peer)


def test_a_client_that_does_not_trust_us_is_a_failure_with_its_own_words() -> None:
    with pair() as (tls, peer):
        wary = Peer(ssl.create_default_context(), peer.sock)
        wary.step()
        tls.handshake()
        with pytest.raises(ssl.SSLError):
            wary.step()
        with pytest.raises(TlsError, match="unknown ca"):
            tls.handshake()
