"""The file that remembers which cluster the gateway belongs to."""

from pathlib import Path

import pytest

from broker.common.errors import ConfigError
from broker.gateway.upstream.identity import NAME, ClusterIdentity


def test_nothing_is_known_at_first_and_then_what_was_written(tmp_path: Path) -> None:
    identity = ClusterIdentity(tmp_path)
    assert identity.read() is None
    identity.write("4L6g3nShT-eMCtK--X86sw")
    identity.write("other")
    assert ClusterIdentity(tmp_path).read() == "other"
    assert [each.name for each in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("content", [b"", b"cluster.id=", b"something=else\n", b"\xff\xfe"])
def test_a_damaged_file_stops_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(ConfigError, match=r"upstream\.properties: cluster\.id='\(damaged\)' is not allowed"):
        ClusterIdentity(tmp_path).read()


def test_a_disk_that_refuses_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ClusterIdentity(tmp_path / "missing").write("id")
    assert "cannot store the id" in caplog.text
