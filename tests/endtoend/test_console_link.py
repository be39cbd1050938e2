"""What a start prints of the console, at a terminal and elsewhere, and `weir console-link`."""

import http.client
import json
import os
import pty
import re
import shlex
import signal
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO
from urllib.parse import urlsplit

import pytest

from broker.security.console_links import FILE_NAME
from tests.support.broker_process import WEIR

pytestmark = pytest.mark.endtoend


def settings(directory: Path) -> list[str]:
    return [
        f"--override=log.dirs={directory}",
        "--override=listeners=PLAINTEXT://127.0.0.1:0",
        "--override=console.listener=127.0.0.1:0",
    ]


@contextmanager
def started(
    *arguments: str, last: str = "REST: ", at_terminal: bool = False, kill: bool = False
) -> Iterator[str]:
    """What a start without a token in the environment prints, up to the line with `last`; ends with the
    broker.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
    reading, writing = pty.openpty() if at_terminal else os.pipe()
    process = subprocess.Popen(
        [WEIR, "serve", *arguments], stdout=writing, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(writing)
    deadline = Timer(30, process.kill)  # ends the reading of output that never comes
    deadline.start()
    with os.fdopen(reading, "r", encoding="utf-8") as output:
        try:
            printed = greeting(output, last)
            deadline.cancel()
            yield printed
        finally:
            deadline.cancel()
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            process.wait(20)


def greeting(output: IO[str], last: str) -> str:
    printed = ""
    while last not in printed:
        line = output.readline()
        assert line, f"the broker ended: {printed}"
        printed += line
    return printed.replace("\r\n", "\n")


def link_of(printed: str) -> str:
    return re.findall(r"(?m)^Console: (\S+)$", printed)[0]


def follow(link: str) -> int:
    """The status that a browser gets. Browsers find the name by themselves, Python does not."""
    url = urlsplit(link)
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=20)
    try:
        headers = {"Host": url.netloc, "Sec-Fetch-Site": "none"}
        connection.request("GET", f"{url.path}?{url.query}", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def console_link(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [WEIR, "console-link", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def printed_link(printed: str) -> str:
    """The link of the command that the start prints."""
    (command,) = re.findall(r"`(weir console-link.*)` prints", printed)
    made = console_link(*shlex.split(command)[2:])
    assert made.returncode == 0 and made.stderr == "", made
    return made.stdout.strip()


def test_the_first_start_prints_a_link_that_is_good_once_and_no_token_where_output_is_kept(
    tmp_path: Path,
) -> None:
    with started(*settings(tmp_path), last="Token: ") as output:
        link = link_of(output)
        assert re.fullmatch(r"http://weir-(\d+)\.localhost:\1/\?code=[\w-]{75}", link), output
        assert "Token:   shown at a terminal only" in output
        assert [follow(link), follow(link)] == [303, 401]
        path = tmp_path / FILE_NAME
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        another = printed_link(output)
        assert another.partition("?code=")[0] == link.partition("?code=")[0]
        assert [follow(another), follow(another)] == [303, 401]
    assert not path.exists()
    with started(*settings(tmp_path)) as output:
        assert "code=" not in output and "Token:" not in output
        assert follow(f"{link_of(output)}?code={link.partition('?code=')[2]}") == 401
        assert follow(printed_link(output)) == 303
        assert "` prints a link" in output


def test_the_printed_command_has_the_file_of_the_start(tmp_path: Path) -> None:
    file = tmp_path / "a broker's.properties"
    file.write_text(f"log.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:0\n", encoding="utf-8")
    with started(str(file), "--override=console.listener=127.0.0.1:0") as output:
        assert follow(printed_link(output)) == 303


def test_only_a_terminal_gets_the_commands_of_a_first_record(tmp_path: Path) -> None:
    """Where output is kept, nothing follows the addresses but the log."""
    command = [WEIR, "serve", *settings(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        assert broker.stdout is not None
        printed = greeting(broker.stdout, "REST: ")
        broker.terminate()
        printed += broker.stdout.read()
    words = [line.partition(" ")[0] for line in printed.splitlines()]
    assert words in (["Kafka:", "Console:", "", "REST:"], ["Kafka:", "Console:", "", "REST:", "Token:"])


def test_at_a_terminal_every_start_prints_a_link_and_the_first_one_the_token(tmp_path: Path) -> None:
    with started(*settings(tmp_path), last="first record", at_terminal=True) as output:
        assert follow(link_of(output)) == 303
        (token,) = re.findall(r"(?m)^Token:   ([\w-]{43})$", output)
        (address,) = re.findall(r"(?m)^REST:    (\S+)$", output)
        request = urllib.request.Request(f"{address}tokens", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["mine"] == "administrator"
    with started(*settings(tmp_path), last="first record", at_terminal=True) as output:
        assert follow(link_of(output)) == 303
        assert "Token:" not in output


def test_without_a_broker_there_is_no_link(tmp_path: Path) -> None:
    with started(*settings(tmp_path), kill=True):
        pass
    assert (tmp_path / FILE_NAME).exists()
    for directory in (tmp_path, tmp_path / "nowhere"):
        refused = console_link(*settings(directory))
        assert refused.returncode == 1 and refused.stdout == ""
        assert f"no running broker with a console in {directory}" in refused.stderr
