"""Private keys and certificates in PEM text. (RFC 7468; Kafka: DefaultSslEngineFactory.PemStore)

Called by security.tls. Finds the blocks and writes them as OpenSSL reads them: in a properties file a block
may have lost its line breaks, or have gained blanks. Never looks inside of a block. Takes linear time, as the
text may come from a request.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

_MARK = re.compile(r"-----(?P<what>BEGIN|END) (?P<label>[A-Z0-9 ]+)(?=-----)")
_DASHES: Final = 5
_HEADER = re.compile(r"\A(?:\s*[A-Za-z0-9-]+:[^\n]*\n)+")
"""`Proc-Type: 4,ENCRYPTED` and the like, before the text of a key of the old kind."""

_LINE: Final = 64


class Pem(NamedTuple):
    """The blocks of a text, each whole and ended by a line break, in order."""

    keys: tuple[str, ...]
    certificates: tuple[str, ...]


def parse(text: str) -> Pem:
    """What else stands in the text is left out."""
    keys, certificates = [], []
    for label, body in _blocks(text):
        if label.endswith("PRIVATE KEY"):
            keys.append(_written(label, body))
        elif label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            certificates.append(_written(label, body))
    return Pem(tuple(keys), tuple(certificates))


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Label and body, from each BEGIN outside of a block to the next END of the same label."""
    marks = list(_MARK.finditer(text))
    ends: dict[str, list[re.Match[str]]] = {}
    for mark in reversed(marks):
        if mark["what"] == "END":
            ends.setdefault(mark["label"], []).append(mark)  # the nearest one last
    outside = 0
    for mark in marks:
        if mark["what"] == "END" or mark.start() < outside:
            continue
        begun = mark.end() + _DASHES
        later = ends.get(mark["label"], [])
        while later and later[-1].start() < begun:
            later.pop()
        if later:
            yield mark["label"], text[begun : later[-1].start()]
            outside = later[-1].end() + _DASHES


def _written(label: str, body: str) -> str:
    header = _HEADER.match(body)
    head = header[0].strip() + "\n\n" if header else ""
    code = "".join(body[header.end() if header else 0 :].split())
    lines = "\n".join(code[at : at + _LINE] for at in range(0, len(code), _LINE))
    return f"-----BEGIN {label}-----\n{head}{lines}\n-----END {label}-----\n"
