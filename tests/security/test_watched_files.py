"""Files that settings name: of a kind and a size that can be read."""

import os
import re
from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.security.watched_files import read_setting

MOST = 1_000


def read(file: Path) -> str:
    return read_setting("some.location", str(file), MOST, "utf-8", "not UTF-8")


@pytest.mark.parametrize("spare", [1, 0, -1])
def test_a_file_may_have_this_size(tmp_path: Path, spare: int) -> None:
    file = tmp_path / "file"
    file.write_text("x" * (MOST - spare))
    if spare >= 0:
        assert len(read(file)) == MOST - spare
        return
    with pytest.raises(
        ConfigError, match=rf"some\.location=.*a readable file: it has more than {MOST} bytes"
    ):
        read(file)


@pytest.mark.parametrize("waiting", [MOST - 1, MOST, MOST + 1])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, waiting: int) -> None:
    """Whatever waits in it."""
    file = tmp_path / "pipe"
    os.mkfifo(file)
    with pytest.raises(ConfigError, match=r"some\.location=.*a readable file: it is not a regular file"):
        read(file)
    other = os.open(file, os.O_RDWR)
    try:
        os.write(other, b"x" * waiting)
        with pytest.raises(ConfigError, match="it is not a regular file"):
            read(file)
        assert len(os.read(other, 2 * MOST)) == waiting
    finally:
        os.close(other)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("/dev/zero", "it is not a regular file"),
        (".", "it is not a regular file"),
        ("missing", "No such file or directory"),
        ("a\0b", "embedded null byte"),
        ("latin", "not UTF-8"),
    ],
)
def test_another_thing_is_refused_with_the_reason(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(ConfigError, match=re.escape(f"a readable file: {reason}")):
        read(tmp_path / name)


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    """Kubernetes mounts Secrets as links."""
    (tmp_path / "file").write_text("\ufeffx")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read(tmp_path / "link") == "x"
