"""Names in the paths of the REST API: `~` and two hexadecimal digits stand for a byte of UTF-8.

Used by webui.rest.routing and by the ids of quota rules. Clients choose names such as `..`, which browsers
and proxies resolve in a path even if it is percent-encoded, or `a/offsets`, which reads as another path.
Escaped, as `~2e~2e` and `a~2foffsets`, each of them names one resource.
"""

import re
from typing import Final

_ESCAPED: Final = re.compile(rb"~([0-9a-fA-F]{2})")
_MISREAD: Final = re.compile(r"[~/]|^\.{1,2}$")


def escaped(text: str) -> str:
    """Return the text with each byte of its UTF-8 escaped."""
    return "".join(f"~{byte:02x}" for byte in text.encode("utf-8", "replace"))


def unescaped(text: str) -> str:
    """Return the name; other `~` stand for themselves. Raises ValueError if it is not UTF-8."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode()).decode()


def path_name(name: str) -> str:
    """Return the name with those characters escaped that would be misread in a path."""
    return _MISREAD.sub(lambda found: escaped(found[0]), name)
