"""Files that the operator names and that are read again when they change: certificates, keys, key sets.

Used by `tls`, `issuer_keys`, gateway.upstream.security and gateway.sharing.signing.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.common.errors import ConfigError

CHECK_EVERY_MS: Final = 1_000
"""Minimum interval between checks of the files; renewals are not urgent."""

Stamp = tuple[int, int, int]


def stamps(files: Iterable[Path]) -> list[Stamp | None]:
    """Return what identifies each file's content without reading it; None for a missing file."""
    found: list[Stamp | None] = []
    for file in files:
        try:
            seen = file.stat()
        except (OSError, ValueError):
            found.append(None)
        else:
            found.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
    return found


def read_setting(key: str, name: str, most_bytes: int, encoding: str, otherwise: str) -> str:
    """Read the text file that a setting names, without a byte order mark. Raises ConfigError, with
    `otherwise` as the reason if it has another encoding.
    """
    try:
        return read_regular(name, most_bytes).decode(encoding).removeprefix("\ufeff")
    except OSError as error:
        reason = error.strerror
    except UnicodeError:
        reason = otherwise
    except ValueError as error:
        reason = str(error)
    raise ConfigError(key, name, f"a readable file: {reason}")


def read_regular(name: str, most_bytes: int) -> bytes:
    """Read a regular file without blocking on pipes or opening devices. Raises OSError, ValueError."""
    if not stat.S_ISREG(os.stat(name).st_mode):
        raise ValueError("it is not a regular file")
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            raise ValueError("it is not a regular file")
        content = bytearray()
        while seen.st_size <= most_bytes and len(content) <= most_bytes:
            piece = file.read(most_bytes + 1 - len(content))
            if not piece:
                return bytes(content)
            content += piece
    raise ValueError(f"it has more than {most_bytes} bytes")
