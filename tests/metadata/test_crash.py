"""Acknowledged changes survive kill -9; a failed commit leaves no partial write. Real processes and files."""

import subprocess
import sys
from pathlib import Path

import pytest

from broker.metadata.store import MetadataStore

COMMIT_FOR_EVER = """
import sys
from pathlib import Path
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind, write_pairs
from broker.metadata.store import MetadataStore

store = MetadataStore.open(Path(sys.argv[1]), 1)
for n in range(1_000_000):
    users = [write_pairs((("user", f"{n}{half}"),)) for half in "ab"]
    changes = [Change(ChangeKind.CLIENT_QUOTA, user, "producer_byte_rate", str(n + 1)) for user in users]
    image = store.commit(changes, BROKER_ITSELF, n)
    print(n, image.version, flush=True)
"""

FILL_THE_DISK = """
import resource, sys
from pathlib import Path
from broker.common.errors import ApiError
from broker.metadata.actor import BROKER_ITSELF
from broker.metadata.changes import Change, ChangeKind
from broker.metadata.store import MetadataStore

path = Path(sys.argv[1])
store = MetadataStore.open(path, 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5_000, resource.RLIM_INFINITY))
before = store.image
wide = [Change(ChangeKind.TOPIC_CONFIG, "t", f"key{n}", "x" * 1_000) for n in range(100)]
try:
    store.commit(wide, BROKER_ITSELF, 2)
except ApiError as error:
    print(error.code.name, store.image is before)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(store.commit([Change(ChangeKind.PRODUCER_IDS, "", "next", "7")], BROKER_ITSELF, 3).version)
"""


@pytest.mark.parametrize("acknowledged", [1, 7, 40, 111])
def test_a_killed_broker_loses_nothing_that_it_acknowledged(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "metadata.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", COMMIT_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        seen = [process.stdout.readline().split() for _ in range(acknowledged)]
        process.kill()
        seen += [line.split() for line in process.stdout if line.endswith("\n")]
    last, version = map(int, seen[-1])
    store = MetadataStore.open(path, 1)
    users = {
        entity[0][1]: entry.limits["producer_byte_rate"].value for entity, entry in store.image.quotas.items()
    }
    for n in range(last + 1):
        assert users[f"{n}a"] == users[f"{n}b"] == n + 1
    # One more, unacknowledged commit can be on disk; if so, both of its halves are.
    assert store.image.version in (version, version + 2)
    assert len(users) == store.image.version - 1
    store.close()


def test_a_full_disk_refuses_whole_and_the_broker_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["KAFKA_STORAGE_ERROR", "True", "2"]
    store = MetadataStore.open(path, 4)
    assert (store.image.version, store.image.next_producer_id) == (2, 7)
    store.close()
