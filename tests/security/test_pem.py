"""PEM in files and in properties, which lose line breaks."""

import textwrap

import pytest

from broker.security.pem import parse
from tests.support.certificates import certificates


def test_a_store_is_its_key_and_its_chain_in_order() -> None:
    known = certificates()
    pem = parse(known.server.text())
    assert len(pem.keys) == 1
    assert pem.certificates == (known.server.certificate.read_text(), known.authority.certificate.read_text())


def test_line_breaks_may_be_lost_or_be_others() -> None:
    text = certificates().server.text()
    whole = parse(text)
    assert parse(text.replace("\n", " ")) == whole
    assert parse(text.replace("\n", "")) == whole
    assert parse(text.replace("\n", "\r\n")) == whole
    assert parse(f"Bag Attributes: none\n{text}\nwhatever") == whole


def test_the_header_of_an_old_encrypted_key_is_kept() -> None:
    body = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nQUJD\n"
    pem = parse(f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n")
    assert pem.keys == (f"-----BEGIN EC PRIVATE KEY-----\n{body}-----END EC PRIVATE KEY-----\n",)


def test_blocks_that_do_not_end_or_are_something_else_are_left_out() -> None:
    text = "-----BEGIN CERTIFICATE-----\nQUJD\n-----END PRIVATE KEY-----\n"
    other = "-----BEGIN EC PARAMETERS-----\nQUJD\n-----END EC PARAMETERS-----\n"
    assert parse(text + other) == ((), ())


def test_a_block_ends_at_the_next_end_of_its_own_label() -> None:
    text = (
        "-----BEGIN A PRIVATE KEY-----QUJD-----BEGIN CERTIFICATE-----QQ-----END CERTIFICATE-----"
        "-----END A PRIVATE KEY----------BEGIN CERTIFICATE-----QUJD-----END CERTIFICATE-----"
    )
    pem = parse(text)
    assert [len(pem.keys), len(pem.certificates)] == [1, 1]
    unlike = parse("-----BEGIN CERTIFICATE-----QQ-----END B-----" + text)
    assert (len(unlike.keys), len(unlike.certificates)) == (0, 2)
    assert "ENDB" in unlike.certificates[0] and unlike.certificates[1] == pem.certificates[0]
    assert parse("-----BEGIN X PRIVATE KEY-----QQ" + text) == pem


def test_a_megabyte_of_beginnings_takes_no_longer_than_a_megabyte_of_anything() -> None:
    """A naive parser searches to the end of the text for each of 40,000 beginnings."""
    assert parse("-----BEGIN CERTIFICATE-----" * 40_000) == ((), ())
    assert parse("-----BEGIN " + "A" * 1_000_000) == ((), ())


@pytest.mark.parametrize("size", [63, 64, 65, 128, 129])
def test_lines_have_sixty_four_characters(size: int) -> None:
    (found,) = parse(f"-----BEGIN CERTIFICATE-----{'Q' * size}-----END CERTIFICATE-----").certificates
    assert found.splitlines()[1:-1] == textwrap.wrap("Q" * size, 64)
