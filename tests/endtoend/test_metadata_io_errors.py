"""The metadata on a disk that fails: real EIO from the system calls of SQLite, which a library that is loaded
before the C library returns for as long as a file says so.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.error import HTTPError

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.quota_interfaces import set_by_rest

CC: Final = shutil.which("cc")
pytestmark = [pytest.mark.endtoend, pytest.mark.skipif(CC is None, reason="needs a C compiler")]

SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd, const char *kind) {
    char name[64], path[4096] = {0}, wanted[32] = {0};
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) < 0 || !strstr(path, "weir-metadata.sqlite")) return 0;
    int flag = open(getenv("FAILING"), O_RDONLY | O_CLOEXEC);
    if (flag < 0) return 0;
    ssize_t size = read(flag, wanted, sizeof wanted - 1);
    close(flag);
    if (size <= 0 || strcmp(wanted, kind)) return 0;
    errno = EIO;
    return 1;
}

#define REAL(name, type) static type real; if (!real) real = (type)dlsym(RTLD_NEXT, #name)

typedef ssize_t (*pwrite_t)(int, const void *, size_t, off_t);
typedef ssize_t (*write_t)(int, const void *, size_t);
typedef int (*sync_t)(int);

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite, pwrite_t);
    return fails(fd, "write") ? -1 : real(fd, data, size, at);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) {
    REAL(pwrite64, pwrite_t);
    return fails(fd, "write") ? -1 : real(fd, data, size, at);
}
ssize_t write(int fd, const void *data, size_t size) {
    REAL(write, write_t);
    return fails(fd, "write") ? -1 : real(fd, data, size);
}
int fsync(int fd) {
    REAL(fsync, sync_t);
    return fails(fd, "sync") ? -1 : real(fd);
}
int fdatasync(int fd) {
    REAL(fdatasync, sync_t);
    return fails(fd, "sync") ? -1 : real(fd);
}
"""


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    """The file that says which system calls fail: `write`, `sync`, or none if it is missing."""
    return tmp_path / "failing"


@pytest.fixture
def broker(tmp_path: Path, failing: Path) -> Iterator[BrokerProcess]:
    source, library = tmp_path / "failing.c", tmp_path / "failing.so"
    source.write_text(SOURCE)
    subprocess.run([str(CC), "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    prefix = ("env", f"LD_PRELOAD={library}", f"FAILING={failing}")
    with BrokerProcess(tmp_path / "data", prefix=prefix) as running:
        set_by_rest(running, {"client-id": "app"}, 1_000)
        yield running


def limits(broker: BrokerProcess) -> list[float]:
    items = broker.ask("GET", "/api/v1/client-quotas")["items"]
    return [item["limits"]["producer_byte_rate"]["value"] for item in items]


def refused(broker: BrokerProcess, value: int) -> None:
    with pytest.raises(HTTPError) as error:
        set_by_rest(broker, {"client-id": "app"}, value)
    assert error.value.code == 503
    error.value.close()


def test_a_change_that_cannot_be_written_is_refused_whole_and_a_later_one_is_kept(
    broker: BrokerProcess, failing: Path
) -> None:
    failing.write_text("write")
    refused(broker, 2_000)
    assert limits(broker) == [1_000]
    (line,) = broker.lines_with("a change was refused")
    assert "disk I/O error" in line and "until the next start" not in line
    failing.unlink()
    set_by_rest(broker, {"client-id": "app"}, 3_000)
    broker.kill()
    broker.start()
    assert limits(broker) == [3_000]


def test_after_a_change_that_cannot_be_flushed_no_other_is_accepted_until_the_next_start(
    broker: BrokerProcess, failing: Path
) -> None:
    failing.write_text("sync")
    refused(broker, 2_000)
    failing.unlink()
    refused(broker, 3_000)
    assert limits(broker) == [1_000]
    assert "until the next start" in broker.lines_with("a change was refused")[0]
    broker.kill()
    broker.start()
    # The refused change may be there: its pages were written, and nobody knows whether they are on the disk.
    assert limits(broker) in ([1_000], [2_000])
    set_by_rest(broker, {"client-id": "app"}, 4_000)
    assert limits(broker) == [4_000]
