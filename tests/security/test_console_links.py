"""One-time codes, and the file from which another process makes them."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest

from broker.security.console_links import (
    FILE_NAME,
    LIFE_MS,
    ConsoleLink,
    ConsoleLinkFile,
    ConsoleLinks,
    make_code,
    read_console_link,
)

KEY = b"k" * 32
NOW = 5_000_000
LINK = ConsoleLink("http://weir-8080.localhost:8080/", KEY)


@pytest.fixture
def links() -> ConsoleLinks:
    return ConsoleLinks(KEY)


@pytest.mark.parametrize(
    ("later_ms", "good"),
    [(-1, False), (0, True), (LIFE_MS - 1, True), (LIFE_MS, False), (LIFE_MS + 1, False)],
)
def test_a_code_is_good_for_fifteen_minutes_from_when_it_was_made(
    links: ConsoleLinks, later_ms: int, good: bool
) -> None:
    assert LIFE_MS == 15 * 60 * 1_000
    assert links.redeem(make_code(KEY, NOW), NOW + later_ms) is good


@pytest.mark.parametrize("later_ms", [0, 1, LIFE_MS - 1, LIFE_MS, LIFE_MS + 1])
def test_a_code_is_good_once(links: ConsoleLinks, later_ms: int) -> None:
    code = links.make(NOW)
    assert links.redeem(code, NOW)
    assert links.redeem(links.make(NOW + later_ms), NOW + later_ms)
    assert not links.redeem(code, NOW + later_ms)


def test_codes_of_one_moment_differ(links: ConsoleLinks) -> None:
    first, second = links.make(NOW), links.make(NOW)
    assert first != second and links.redeem(first, NOW) and links.redeem(second, NOW)


def test_redeemed_codes_are_forgotten_when_they_would_have_expired(links: ConsoleLinks) -> None:
    for second in range(1_000):
        assert links.redeem(links.make(NOW + second * 1_000), NOW + second * 1_000)
    assert len(links._redeemed) == LIFE_MS // 1_000


def test_the_key_of_another_start_makes_no_codes_for_this_one(links: ConsoleLinks) -> None:
    assert not links.redeem(make_code(b"j" * 32, NOW), NOW)


def test_no_byte_of_a_code_can_be_changed(links: ConsoleLinks) -> None:
    code = links.make(NOW)
    whole = base64.urlsafe_b64decode(code + "=")
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        assert not links.redeem(base64.urlsafe_b64encode(changed).rstrip(b"=").decode(), NOW)
    assert links.redeem(code, NOW)


@pytest.mark.parametrize("length", [0, 1, 74, 75, 76, 1_000])
@pytest.mark.parametrize("character", ["A", "é", "\ud800", "\0", "+", "="])
def test_invalid_codes_are_refused(links: ConsoleLinks, length: int, character: str) -> None:
    assert not links.redeem(character * length, NOW)


def test_another_process_makes_codes_while_the_broker_runs(tmp_path: Path) -> None:
    link_file = ConsoleLinkFile(str(tmp_path), LINK)
    assert read_console_link(str(tmp_path)) == LINK
    link_file.close()
    with pytest.raises(FileNotFoundError):
        read_console_link(str(tmp_path))


def test_only_the_owner_reads_the_key(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        link_file = ConsoleLinkFile(str(tmp_path), LINK)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    link_file.close()


def test_the_file_of_a_killed_broker_makes_no_links(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({"url": LINK.url, "key": LINK.key.hex()}))
    with pytest.raises(FileNotFoundError):
        read_console_link(str(tmp_path))
    link_file = ConsoleLinkFile(str(tmp_path), LINK)
    assert read_console_link(str(tmp_path)) == LINK
    link_file.close()
