"""The file of credentials by principal."""

import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from broker.common.errors import ConfigError
from broker.common.slices import run_through
from broker.config.load import load
from broker.config.sections import UpstreamConfig
from broker.config.sections.gateway import MAP_KEY
from broker.gateway.upstream.errors import Reason, UpstreamError
from broker.gateway.upstream.mapped import MAX_FILE_BYTES, MappedPrincipals, read_map, read_text
from broker.network.clock import TrioClock
from broker.security.client_login import SCRAM_MODULE
from broker.security.plain import PLAIN_MODULE
from broker.security.watched_files import CHECK_EVERY_MS

SECRET = "a-secret"


def login(user: str, password: str = SECRET, module: str = SCRAM_MODULE) -> str:
    return f'{module} required username="{user}" password="{password}";'


def config_of(mechanism: str = "SCRAM-SHA-256") -> UpstreamConfig:
    return load(None, (f"upstream.sasl.mechanism={mechanism}",), {}).config.upstream


def read_entries(file: Path, mechanism: str = "SCRAM-SHA-256") -> list[str]:
    """The principals of a file that is for this mechanism."""
    found = run_through(read_map(str(file), read_text(str(file)), mechanism))
    found.check(mechanism)
    return list(found.entries)


class Mapped:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.closed: list[str] = []
        self.principals = MappedPrincipals(str(file), config_of(), TrioClock(), self._close)

    async def _close(self, principals: Collection[str], reason: str) -> None:
        assert MAP_KEY in reason
        self.closed += principals

    async def user(self, principal: str) -> str | None:
        """The name that a principal logs in with; None for one that is refused."""
        try:
            found = await self.principals.credentials(principal)
        except UpstreamError:
            return None
        assert found is not None
        return found.name


@asynccontextmanager
async def mapped(tmp_path: Path, text: str) -> AsyncIterator[Mapped]:
    file = tmp_path / "principals.properties"
    file.write_text(text)
    async with trio.open_nursery() as nursery:
        found = Mapped(file)
        nursery.start_soon(found.principals.run)
        await wait_all_tasks_blocked()
        yield found
        nursery.cancel_scope.cancel()


async def read_again(clock: MockClock, caplog: pytest.LogCaptureFixture, text: str = "read again") -> None:
    """Let the time of a check pass, and wait for its line: a thread reads the file."""
    before = len(caplog.records)
    clock.jump(CHECK_EVERY_MS / 1_000)
    while not any(text in each.message for each in caplog.records[before:]):
        await trio.lowlevel.checkpoint()


async def test_each_principal_has_the_user_of_its_entry(tmp_path: Path, mock_clock: MockClock) -> None:
    text = f"""\
# a comment
alice={login("upstream-alice")}
bob = {login("upstream-bob")}
CN\\=carol,O\\=Example\\ Ltd={login("upstream-carol")}
zo\\u00eb={login("upstream-zoe")}
"""
    async with mapped(tmp_path, text) as found:
        users = {
            each: await found.user(each) for each in ("alice", "bob", "CN=carol,O=Example Ltd", "zoë", "dave")
        }
    assert users == {
        "alice": "upstream-alice",
        "bob": "upstream-bob",
        "CN=carol,O=Example Ltd": "upstream-carol",
        "zoë": "upstream-zoe",
        "dave": None,
    }


async def test_a_byte_order_mark_is_not_part_of_the_first_principal(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with mapped(tmp_path, f"\ufeffalice={login('a')}") as found:
        assert await found.user("alice") == "a"


async def test_a_refused_principal_has_one_line_a_minute(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with mapped(tmp_path, f"alice={login('a')}") as found:
        for _ in range(3):
            with pytest.raises(UpstreamError, match=MAP_KEY) as caught:
                await found.principals.credentials("bob")
            assert caught.value.reason is Reason.PRINCIPAL
        assert [each.message for each in caplog.records] == [
            "cannot log a client in upstream as its own principal"
        ]
        mock_clock.jump(60)
        assert await found.user("bob") is None
        assert len(caplog.records) == 2


async def test_credentials_that_the_cluster_refuses_concern_their_principal_alone(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    async with mapped(tmp_path, f"alice={login('a')}") as found:
        error = UpstreamError(Reason.CREDENTIALS, "node: authentication failed")
        with pytest.raises(UpstreamError, match="authentication failed") as caught:
            await found.principals.refused("alice", None, error)
        assert caught.value.reason is Reason.PRINCIPAL and SECRET not in str(caught.value)


async def test_a_changed_file_closes_the_connections_of_those_who_are_no_longer_in_it(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    names = ("same", "removed", "renamed", "password")
    text = "".join(f"{each}={login(each)}\n" for each in names)
    async with mapped(tmp_path, text) as found:
        before = {each: await found.principals.credentials(each) for each in names}
        found.file.write_text(
            f"same={login('same')}\nrenamed={login('other')}\npassword={login('password', 'new')}\n"
            f"added={login('added')}\n"
        )
        await read_again(mock_clock, caplog)
        await wait_all_tasks_blocked()
        assert sorted(found.closed) == ["removed", "renamed"]
        assert await found.user("removed") is None and await found.user("added") == "added"
        assert await found.principals.credentials("same") is before["same"]
        assert await found.principals.credentials("password") is not before["password"]
        assert SECRET not in caplog.text


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "# nothing",
        "alice",
        "alice=",
        "alice=secret",
        f"alice={login('a', module=PLAIN_MODULE)}",
        f"alice={login('a')}\nalice={login('b')}",
        f"User\\:alice={login('a')}",
        f"={login('a')}",
        "\\u12=x",
        "alice=" + login("a", "half of \\ud83d"),
        None,
    ],
)
async def test_a_file_that_cannot_be_used_is_logged_once_and_changes_nothing(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture, bad: str | None
) -> None:
    async with mapped(tmp_path, f"alice={login('a')}") as found:
        if bad is None:
            found.file.unlink()
        else:
            found.file.write_text(bad)
        await read_again(mock_clock, caplog, "cannot use the new credentials of principals")
        mock_clock.jump(5)
        await wait_all_tasks_blocked()
        assert len(caplog.records) == 1 and SECRET not in caplog.text
        assert await found.user("alice") == "a" and found.closed == []


@pytest.mark.parametrize(
    ("text", "line", "allowed"),
    [
        (f"alice={login('a')}\nbob=secret-of-bob", 2, "username="),
        (f"\n\nalice={login('a', module=PLAIN_MODULE)}", 3, "the login module of SCRAM-SHA-256"),
        (f"alice={login('a')}\n\nalice={login('b')}", 3, "one entry for each principal"),
        (f"User\\:alice={login('a')}", 1, "without `User:`"),
    ],
)
def test_an_error_names_the_line_and_shows_no_secret(
    tmp_path: Path, text: str, line: int, allowed: str
) -> None:
    file = tmp_path / "principals.properties"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_entries(file)
    assert str(caught.value).startswith(f"{file}, line {line}: {MAP_KEY}=")
    assert allowed in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("spare", [1, 0, -1])
def test_a_file_of_any_size_is_not_read(tmp_path: Path, spare: int) -> None:
    file = tmp_path / "principals.properties"
    file.write_text(f"alice={login('a')}\n#".ljust(MAX_FILE_BYTES - spare, "x"))
    if spare >= 0:
        assert read_entries(file) == ["alice"]
        return
    with pytest.raises(ConfigError, match=f"more than {MAX_FILE_BYTES} bytes"):
        read_entries(file)


async def test_another_mechanism_takes_the_same_entries(tmp_path: Path, mock_clock: MockClock) -> None:
    async with mapped(tmp_path, f"alice={login('a')}") as found:
        found.principals.configure(config_of("SCRAM-SHA-512"))
        credentials = await found.principals.credentials("alice")
        assert credentials is not None and credentials.mechanism == "SCRAM-SHA-512"
        assert await found.principals.credentials("alice") is credentials
        with pytest.raises(ConfigError, match=r"line 1.*the login module of PLAIN"):
            found.principals.configure(config_of("PLAIN"))
        assert await found.user("alice") == "a"


async def test_a_change_of_settings_reads_no_file(tmp_path: Path, mock_clock: MockClock) -> None:
    """It happens between two requests, and a file can be large, or on a disk that does not answer."""
    async with mapped(tmp_path, f"alice={login('a')}") as found:
        found.file.unlink()
        found.principals.check(config_of("SCRAM-SHA-512"))
        found.principals.configure(config_of("SCRAM-SHA-512"))
        assert await found.user("alice") == "a"


async def test_a_file_for_the_next_mechanism_waits_for_it(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with mapped(tmp_path, f"alice={login('a')}\nbob={login('b')}") as found:
        found.file.write_text(f"alice={login('plain-a', module=PLAIN_MODULE)}")
        await read_again(mock_clock, caplog, "cannot use the new credentials of principals")
        assert await found.user("alice") == "a" and await found.user("bob") == "b"
        found.principals.configure(config_of("PLAIN"))
        assert await found.user("alice") == "plain-a" and await found.user("bob") is None
        mock_clock.jump(CHECK_EVERY_MS / 1_000)
        await wait_all_tasks_blocked()
        assert sorted(found.closed) == ["alice", "bob"]


@pytest.mark.parametrize("line", [f"user-{{}}={login('u')}\n", "# comment {}\n", "\n"])
def test_a_large_file_is_read_in_steps(tmp_path: Path, line: str) -> None:
    """One for each line: a second of work would hold all requests back."""
    lines = [line.format(number) for number in range(1_000)]
    text = "".join([*lines, f"alice={login('a')}\n"])
    assert sum(1 for _ in read_map("file", text, "SCRAM-SHA-256")) == 1_001


async def test_a_change_of_the_login_loses_no_principal_that_has_left_the_file(
    tmp_path: Path, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The mechanism changes after the file has, and before the file is read."""
    caplog.set_level(logging.INFO)
    async with mapped(tmp_path, f"alice={login('a')}\nbob={login('b')}\ncarol={login('c')}") as found:
        found.file.write_text(f"alice={login('a')}\ncarol={login('other')}")
        found.principals.configure(config_of("SCRAM-SHA-512"))
        assert found.closed == [] and await found.user("bob") == "b"
        await read_again(mock_clock, caplog)
        await wait_all_tasks_blocked()
        assert sorted(found.closed) == ["bob", "carol"]
