"""A process with an /etc/hosts of its own, so that the system's resolver tells it what a test wants.

Used by tests/endtoend/gateway. Needs user and mount namespaces.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

_UNSHARE: Final = ("unshare", "--map-root-user", "--mount", "sh", "-c")
_BIND: Final = 'mount --bind "$0" /etc/hosts && exec "$@"'


def under_hosts(hosts: Path) -> tuple[str, ...]:
    """Return a command that executes the one behind it with the file as /etc/hosts. Write to the file in
    place to change it meanwhile.
    """
    return (*_UNSHARE, _BIND, str(hosts))


def _can_bind() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*under_hosts(Path("/etc/hosts")), "true"], capture_output=True).returncode == 0


needs_own_hosts = pytest.mark.skipif(not _can_bind(), reason="needs user and mount namespaces")
