"""Private keys and certificates in PEM text. (RFC 7468; Kafka: DefaultSslEngineFactory.PemStore)

Called by security.tls. Finds the blocks and writes them as OpenSSL reads them: in a properties file a block
may have lost its line breaks, or have gained blanks. Never looks inside of a block.
"""

import re
import textwrap
from typing import Final, NamedTuple

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
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
    for match in _BLOCK.finditer(text):
        label = match["label"]
        if label.endswith("PRIVATE KEY"):
            keys.append(_written(label, match["body"]))
        elif label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            certificates.append(_written(label, match["body"]))
    return Pem(tuple(keys), tuple(certificates))


def _written(label: str, body: str) -> str:
    header = _HEADER.match(body)
    head = header[0].strip() + "\n\n" if header else ""
    code = "".join(body[header.end() if header else 0 :].split())
    lines = "\n".join(textwrap.wrap(code, _LINE))
    return f"-----BEGIN {label}-----\n{head}{lines}\n-----END {label}-----\n"
