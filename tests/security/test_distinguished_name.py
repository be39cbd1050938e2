"""Subjects are printed as Java's X500Principal.getName() prints them: Kafka's quotas and super users use this
form.
"""

import ssl

import pytest

from broker.security.principal_rules import subject_of
from tests.support.certificates import certificates


def subject(name: str, wanted: str) -> str:
    identity = certificates().authority.sign(name, wanted)
    return subject_of(ssl.PEM_cert_to_DER_cert(identity.certificate.read_text()))


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ("/CN=broker", "CN=broker"),
        (
            "/C=DE/ST=Bayern/L=Ulm/O=Weir/OU=ops/CN=x/UID=u/DC=d/street=s",
            "STREET=s,DC=d,UID=u,CN=x,OU=ops,O=Weir,L=Ulm,ST=Bayern,C=DE",
        ),
        ('/CN=a,b\\+c=d"e\\\\f<g>h;i#j', 'CN=a\\,b\\+c\\=d\\"e\\\\f\\<g\\>h\\;i\\#j'),
        ("/CN= spaced out ", "CN=\\ spaced out\\ "),
        ("/CN=Jürgen 名前", "CN=Jürgen 名前"),
        ("/emailAddress=a@b.c/CN=x", "CN=x,1.2.840.113549.1.9.1=#16056140622e63"),
        ("/title=Dr/CN=x", "CN=x,2.5.4.12=#0c024472"),
        ("/", ""),
    ],
)
def test_subjects_as_java_prints_them(wanted: str, printed: str) -> None:
    assert subject("name", wanted) == printed


def test_parts_of_one_level_stay_together() -> None:
    identity = certificates().authority.sign("name", "/O=Weir/CN=x+UID=y")
    assert subject_of(ssl.PEM_cert_to_DER_cert(identity.certificate.read_text())) == "CN=x+UID=y,O=Weir"


@pytest.mark.parametrize("cut", [0, 1, 2, 10, 50, 100])
def test_a_truncated_certificate_is_refused(cut: int) -> None:
    whole = ssl.PEM_cert_to_DER_cert(certificates().server.certificate.read_text())
    with pytest.raises(ValueError):
        subject_of(whole[:cut])


@pytest.mark.parametrize(
    ("tag", "value", "printed"),
    [
        (12, b"ann", "ann"),
        (12, b"ann\xff", "#0c04616e6eff"),
        (12, b"ann\xfe", "#0c04616e6efe"),
        (19, b"ann\x80", "#1304616e6e80"),
        (30, b"\0a\0b", "ab"),
        (30, b"\0a\0", "#1e03006100"),
        (28, b"\0\0\0a", "a"),
        (28, b"\0\x11\0\0", "#1c0400110000"),
    ],
)
def test_a_text_that_cannot_be_decoded_is_printed_in_hexadecimal(
    tag: int, value: bytes, printed: str
) -> None:
    """U+FFFD for each wrong byte would make several names one."""

    def element(kind: int, *parts: bytes) -> bytes:
        content = b"".join(parts)
        return bytes((kind, len(content))) + content

    name = element(0x30, element(0x31, element(0x30, b"\6\3\x55\4\3", element(tag, value))))
    before = b"".join(element(0x30) for _ in range(4))
    assert subject_of(element(0x30, element(0x30, before, name))) == f"CN={printed}"
