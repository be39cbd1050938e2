"""Private keys and certificates in PEM text. (RFC 7468; Kafka: DefaultSslEngineFactory.PemStore)

Called by security.tls. Extracts the blocks and reformats them for OpenSSL: in a properties file, a block may
have lost its line breaks or gained blanks. Does not decode the blocks. Takes linear time, because the text
may come from a request.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_MARK = re.compile(r"-----(?P<what>BEGIN|END) (?P<label>[A-Z0-9 ]+)(?=-----)")
_DASHES: Final = 5
_HEADER = re.compile(r"\A(?:\s*[A-Za-z0-9-]+:[^\n]*\n)+")
"""`Proc-Type: 4,ENCRYPTED` and similar headers before the key in the traditional format."""

_LINE: Final = 64


class Pem(NamedTuple):
    """The blocks of a text in order, each complete and ended by a line break."""

    keys: tuple[str, ...]
    certificates: tuple[str, ...]


def parse(text: str) -> Pem:
    """Return the keys and certificates; ignores other text."""
    keys, certificates = [], []
    for label, body in _blocks(text):
        if label.endswith("PRIVATE KEY"):
            keys.append(_formatted(label, body))
        elif label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            certificates.append(_formatted(label, body))
    return Pem(tuple(keys), tuple(certificates))


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield label and body, from each BEGIN outside a block to the next END of the same label."""
    marks = list(_MARK.finditer(text))
    ends: dict[str, list[re.Match[str]]] = {}
    for mark in reversed(marks):
        if mark["what"] == "END":
            ends.setdefault(mark["label"], []).append(mark)  # the nearest one last
    block_end = 0
    for mark in marks:
        if mark["what"] == "END" or mark.start() < block_end:
            continue
        body_start = mark.end() + _DASHES
        later = ends.get(mark["label"], [])
        while later and later[-1].start() < body_start:
            later.pop()
        if later:
            yield mark["label"], text[body_start : later[-1].start()]
            block_end = later[-1].end() + _DASHES


def _formatted(label: str, body: str) -> str:
    header = _HEADER.match(body)
    head = header[0].strip() + "\n\n" if header else ""
    code = "".join(body[header.end() if header else 0 :].split())
    lines = "\n".join(code[at : at + _LINE] for at in range(0, len(code), _LINE))
    return f"-----BEGIN {label}-----\n{head}{lines}\n-----END {label}-----\n"
