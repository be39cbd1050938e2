"""PEM in files and in properties, where line breaks get lost."""

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
