"""TLS over a socket pair: the same bytes for any fragmentation, no loss if the kernel takes or gives only a
part, and error messages.
"""

import contextlib
import itertools
import os
import random
import socket
import ssl

import pytest

from broker.log.disk import OpenFile
from broker.log.slice import Sendfile
from broker.network.connection.frame_pool import FramePool
from broker.network.connection.receive import SCRATCH_BYTES, EndOfStream, Receive
from broker.network.connection.send import Part, Send
from broker.network.connection.tls_socket import RUN, UNASKED_BYTES, TlsError, TlsReceive, TlsSocket
from tests.network.connection.test_send import Region
from tests.support.hostile import framed
from tests.support.tls_peer import Peer, connected, facing, fill_kernel, pair


def new_receive(tls: TlsSocket, limit: int = 1 << 24) -> TlsReceive:
    return TlsReceive(Receive(limit, memoryview(bytearray(SCRATCH_BYTES)), FramePool()), tls)


def frames_of(receive: TlsReceive, tls: TlsSocket) -> list[bytes]:
    """What a processor gets that was told once that the socket is readable, and otherwise asks
    `has_buffered`.
    """
    found = []
    frame = receive.read(tls)
    while True:
        if frame is not None:
            found.append(bytes(frame))
        if not receive.has_buffered:
            return found
        frame = receive.next_buffered()
        if frame is None:
            return found


BODIES = [b"", b"x", bytes(range(256)) * 4, b"a" * 70_000, b"tail", b"b" * 200_000, b"end"]


# Reading


def test_whole_byte_by_byte_and_random_chunks_give_the_same_frames() -> None:
    stream = b"".join(map(framed, BODIES))
    rng = random.Random(7)
    for trial in range(4):
        with connected() as (tls, peer):
            receive = new_receive(tls)
            found, at = [], 0
            while at < len(stream):
                size = (16_384, 1_000, 70_000, rng.randrange(1, 40_000))[trial]
                peer.tls.write(stream[at : at + size])
                at += size
                data = peer.outgoing.read()
                cut = rng.randrange(len(data)) if trial else len(data)
                for piece in (data[:cut], data[cut:]):
                    peer.sock.sendall(piece)
                    found += frames_of(receive, tls)
            assert found == BODIES


def test_ciphertext_byte_by_byte_gives_the_same_frames() -> None:
    with connected() as (tls, peer):
        receive = new_receive(tls)
        peer.tls.write(b"".join(map(framed, BODIES[:3])))
        found, data = [], peer.outgoing.read()
        for at in range(len(data)):
            peer.sock.send(data[at : at + 1])
            found += frames_of(receive, tls)
        assert found == BODIES[:3]


def test_records_of_one_byte_give_the_same_frames() -> None:
    with connected() as (tls, peer):
        for byte in framed(b"slowly"):
            peer.tls.write(bytes([byte]))
        peer.push()
        assert frames_of(new_receive(tls), tls) == [b"slowly"]


def test_a_part_of_a_record_is_known_until_its_last_byte() -> None:
    with connected() as (tls, peer):
        receive = new_receive(tls)
        assert not tls.is_within_record
        records = [_record(peer, body) for body in (b"", b"x" * 100, b"tail")]
        data, ends = b"".join(records), set(itertools.accumulate(map(len, records)))
        for at in range(len(data)):
            peer.sock.send(data[at : at + 1])
            frames_of(receive, tls)
            assert tls.is_within_record is (at + 1 not in ends)
        peer.sock.send(_record(peer, b"whole") + _record(peer, b"cut")[:-1])
        assert frames_of(receive, tls) == [b"whole"]
        assert tls.is_within_record and not receive.has_buffered


def test_a_part_of_a_record_behind_the_handshake_is_known() -> None:
    with pair() as (tls, peer):
        while not peer.step():
            tls.handshake()
        peer.tls.write(framed(b"early"))
        data = peer.outgoing.read()
        peer.sock.send(data[:-1])
        assert tls.handshake()
        receive = new_receive(tls)
        assert frames_of(receive, tls) == []
        assert tls.is_within_record
        peer.sock.send(data[-1:])
        assert frames_of(receive, tls) == [b"early"]
        assert not tls.is_within_record


def _record(peer: Peer, body: bytes) -> bytes:
    peer.tls.write(framed(body))
    return peer.outgoing.read()


def test_many_frames_in_one_record_are_all_found_without_the_kernel_telling() -> None:
    bodies = [b"%d" % number for number in range(1_000)]
    with connected() as (tls, peer):
        peer.tls.write(b"".join(map(framed, bodies)))
        peer.push()
        assert frames_of(new_receive(tls), tls) == bodies


def test_a_large_frame_and_what_is_behind_it_leave_nothing_in_the_buffers_of_tls() -> None:
    """The end of a large frame is read into a buffer of just its size; the rest of the record stays
    behind.
    """
    bodies = [b"a" * 100_000, b"tail", b"b" * 99_999, b"end"]
    with connected() as (tls, peer):
        peer.tls.write(b"".join(map(framed, bodies)))
        data, receive = peer.outgoing.read(), new_receive(tls)
        found = []
        for at in range(0, len(data), 150_000):
            peer.sock.sendall(data[at : at + 150_000])
            for _ in range(4):  # as often as the kernel has something
                found += frames_of(receive, tls)
        assert found == bodies


def test_the_limit_of_a_frame_holds_above_tls() -> None:
    with connected() as (tls, peer):
        receive = new_receive(tls, limit=10)
        assert receive.limit == 10
        receive.limit = 20
        peer.tls.write(framed(b"x" * 20))
        peer.push()
        assert receive.read(tls) == b"x" * 20


def test_close_notify_is_the_end_and_comes_after_what_is_before_it() -> None:
    with connected() as (tls, peer):
        receive = new_receive(tls)
        peer.tls.write(framed(b"last"))
        with contextlib.suppress(ssl.SSLWantReadError):
            peer.tls.unwrap()
        peer.push()
        assert receive.read(tls) == b"last"
        with pytest.raises(EndOfStream):
            receive.next_buffered() if receive.has_buffered else receive.read(tls)


def test_an_end_without_close_notify_is_distinguished() -> None:
    with connected() as (tls, peer):
        peer.sock.shutdown(socket.SHUT_WR)
        with pytest.raises(EndOfStream, match="without close_notify"):
            tls.recv_into(bytearray(10))


def test_a_record_that_was_tampered_with_ends_the_connection() -> None:
    with connected() as (tls, peer):
        peer.tls.write(b"x" * 100)
        data = bytearray(peer.outgoing.read())
        data[-1] ^= 1
        peer.sock.send(data)
        with pytest.raises(TlsError, match=r"bad record mac|record layer failure"):
            tls.recv_into(bytearray(10))


# Writing


@pytest.mark.parametrize("size", [0, 1, RUN - 1, RUN, RUN + 1, 3 * RUN])
def test_sent_bytes_arrive(size: int) -> None:
    data = random.Random(size).randbytes(size)
    with connected() as (tls, peer):
        assert tls.send(data) == size
        assert peer.read() == data


@pytest.mark.parametrize("piecewise", [0, 1_000, 500_000])
def test_a_response_leaves_once_and_in_order_however_little_the_kernel_takes(piecewise: int) -> None:
    whole = [
        b"head" + b"h" * 100,
        random.Random(1).randbytes(400_000),
        b"between",
        b"r" * 10,
        b"tail" * 9_999,
    ]
    parts: list[Part] = [
        whole[0],
        Region(whole[1], piecewise),
        whole[2],
        Region(whole[3], piecewise),
        whole[4],
    ]
    with connected() as (tls, peer):
        tls._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        send, read, turns = Send(parts), b"", 0
        while not send.write(tls):
            read += peer.read()
            turns += 1
            assert turns < 10_000
        read += peer.read()
        assert read == b"".join(whole)
        assert turns > 10
        assert send.written == len(read)


def test_a_write_that_is_blocked_reports_nothing_of_what_it_has_encrypted() -> None:
    with connected() as (tls, peer):
        stuffing = fill_kernel(tls)
        with pytest.raises(BlockingIOError):
            tls.send(b"x" * 100)
        with pytest.raises(BlockingIOError):
            tls.send(b"x" * 100)
        while stuffing:
            stuffing -= len(peer.sock.recv(min(stuffing, 65_536)))
        assert tls.send(b"x" * 40) == 40  # a shorter piece of the same
        assert tls.send(b"x" * 60 + b"y") == 61
        assert peer.read() == b"x" * 100 + b"y"


def test_neighbours_share_records() -> None:
    """Ten small buffers share one record."""
    with connected() as (tls, peer):
        assert tls.sendmsg([b"small"] * 10, (), 0) == 50
        wire = peer.sock.recv(65_536)
        assert len(wire) < 50 + 40
        peer.incoming.write(wire)
        assert peer.read() == b"small" * 10


def test_the_kernel_has_no_descriptor_to_write_a_file_to(tmp_path_factory: pytest.TempPathFactory) -> None:
    """sendfile would put plaintext on the wire. A file's bytes pass through `send`."""
    path = tmp_path_factory.mktemp("file") / "segment"
    path.write_bytes(data := random.Random(3).randbytes(300_000))
    file = OpenFile(os.open(path, os.O_RDONLY))
    with connected() as (tls, peer):
        assert tls.fileno() == -1
        sent, read = 0, b""
        while sent < len(data):
            sent += Sendfile().send(tls, file, sent, len(data) - sent)
            read += peer.read()
        assert read == data


def test_close_says_close_notify() -> None:
    with connected() as (tls, peer):
        tls.close()
        peer.pull()
        assert peer.tls.read(10) == b""
        with pytest.raises(OSError):
            tls._sock.getpeername()


@pytest.mark.parametrize("waiting", [UNASKED_BYTES - 1, UNASKED_BYTES])
def test_unasked_tls_messages_wait_for_the_kernel(waiting: int) -> None:
    assert unasked(waiting) is BlockingIOError


def test_a_peer_that_makes_tls_talk_and_does_not_listen_is_refused() -> None:
    """Refused renegotiations and key updates cost their sender little; what is kept for it is bounded."""
    assert unasked(UNASKED_BYTES + 1) is TlsError


def unasked(waiting: int) -> type[OSError]:
    """How a read ends when so many bytes of TLS's own wait behind a kernel that takes nothing."""
    with connected() as (tls, _peer):
        fill_kernel(tls)
        tls._outgoing.write(b"x")
        with pytest.raises(BlockingIOError):
            tls.recv_into(bytearray(10))
        tls._outgoing.write(bytes(waiting))
        try:
            tls.recv_into(bytearray(10))
        except OSError as error:
            return type(error)
    raise AssertionError("nothing was there to be read")


# The client's side


def shaken(client: TlsSocket, server: TlsSocket) -> bool:
    """Whether both sides finish their handshake."""
    done = [False, False]
    for _ in range(10):
        done = [client.handshake() or done[0], server.handshake() or done[1]]
        if all(done):
            return True
    return False


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_the_clients_side_carries_the_same_frames_both_ways(version: str) -> None:
    stream = b"".join(map(framed, BODIES))
    with facing(ssl_enabled_protocols=(version,)) as (client, server):
        assert shaken(client, server) and client.cipher() == server.cipher()
        assert client.cipher()[1] == version
        for sender, receiver in ((client, server), (server, client)):
            receive, found, at = new_receive(receiver), [], 0
            for _ in range(100):
                with contextlib.suppress(BlockingIOError):
                    at += sender.send(stream[at : at + 100_000]) if at < len(stream) else 0
                found += frames_of(receive, receiver)
            assert found == BODIES


def test_the_clients_side_refuses_a_certificate_for_another_host() -> None:
    with facing("kafka.example") as (client, server):
        with pytest.raises(TlsError, match="certificate verify failed"):
            shaken(client, server)
        # The server learns why by an alert.
        with pytest.raises(TlsError, match="alert"):
            server.handshake()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_the_clients_side_accepts_names_and_addresses_of_the_certificate(host: str) -> None:
    with facing(host) as (client, server):
        assert shaken(client, server)


def test_the_clients_side_ends_with_a_server_that_closes_in_the_handshake() -> None:
    with facing() as (client, server):
        assert not client.handshake()
        server._sock.recv(65_536)
        server._sock.close()
        with pytest.raises(EndOfStream):
            client.handshake()
