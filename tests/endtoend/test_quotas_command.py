"""`weir quotas` against a broker: what it prints, what it leaves behind, how it says no."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.tools.quotas import quotas
from tests.support.broker_process import TOKEN, WEIR, BrokerProcess

pytestmark = pytest.mark.endtoend

FILE = """\
quotas:
  - entity: {user: alice}
    limits: {producer_byte_rate: 2000000, request_percentage: 12.5}
  - entity: {user: bob, client-id: null}
    limits: {consumer_byte_rate: 500}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("data")) as process:
        yield process


def weir(broker: BrokerProcess, *arguments: str, token: str = TOKEN) -> tuple[int, str]:
    """Its exit status, and all that it says."""
    environment = os.environ | {"WEIR_TOKEN": token, "WEIR_CONSOLE": f"http://{broker.console}"}
    done = subprocess.run(
        [WEIR, "quotas", *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def invoke_weir(broker: BrokerProcess, *arguments: str, token: str = TOKEN) -> tuple[int, str]:
    """The same within this process, which is quicker; it ends as the command line would, by SystemExit."""
    environment = {"WEIR_TOKEN": token, "WEIR_CONSOLE": f"http://{broker.console}"}
    result = CliRunner().invoke(quotas, arguments, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result.exit_code, result.output


def test_from_the_first_limit_to_the_last(broker: BrokerProcess, tmp_path: Path) -> None:
    assert weir(broker, "set", "--user", "alice", "producer_byte_rate=1000000") == (0, "user alice: done\n")
    assert weir(broker, "set", "--ip-default", "connection_creation_rate=5") == (0, "default ip: done\n")
    assert invoke_weir(broker, "set", "--user", "alice", "producer_byte_rate=9", "--dry-run") == (
        0,
        "No connected client changes its rule or its limit.\n",
    )
    _, listed = weir(broker, "list")
    assert [line.split() for line in listed.splitlines()[1:]] == [
        ["user", "alice", "producer_byte_rate", "1", "MB/s", "-", "0"],
        ["default", "ip", "connection_creation_rate", "5/s", "-", "0"],
    ]
    assert "->  user alice: 1 MB/s" in weir(broker, "resolve", "--user", "alice")[1].replace("-> ", "->  ")
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE)
    planned = (
        "user alice  producer_byte_rate  1 MB/s -> 2 MB/s\n"
        "user alice  request_percentage  + 12.5 %\n"
        "user bob, default client-id  consumer_byte_rate  + 500 B/s\n"
    )
    pruned = "default ip  connection_creation_rate  - 5/s\n"
    assert weir(broker, "plan", str(file)) == (2, planned)
    assert weir(broker, "plan", "--prune", str(file)) == (2, planned + pruned)
    assert weir(broker, "apply", str(file)) == (0, planned)
    assert weir(broker, "plan", str(file)) == (0, "Nothing to change.\n")
    _, exported = weir(broker, "export")
    kept = tmp_path / "kept.yaml"
    kept.write_text(exported)
    assert weir(broker, "plan", "--prune", str(kept)) == (0, "Nothing to change.\n")
    assert weir(broker, "apply", "--prune", str(file)) == (0, pruned)
    removed = weir(broker, "remove", "--user", "bob", "--client-id-default", "consumer_byte_rate")
    assert removed == (0, "user bob, default client-id: done\n")
    assert broker.ask("GET", "/api/v1/client-quotas")["of"] == 1


def test_limits_are_typed_with_units(broker: BrokerProcess, tmp_path: Path) -> None:
    limits = ["producer_byte_rate=10MB", "consumer_byte_rate=1.5 MiB/s", "request_percentage=12.5 %"]
    assert invoke_weir(broker, "set", "--user", "una", *limits) == (0, "user una: done\n")
    (row,) = broker.ask("GET", "/api/v1/client-quotas?user=una")["items"]
    assert {key: limit["value"] for key, limit in row["limits"].items()} == {
        "producer_byte_rate": 10_000_000,
        "consumer_byte_rate": 1_572_864,
        "request_percentage": 12.5,
    }
    file = tmp_path / "quotas.yaml"
    file.write_text(
        "quotas: [{entity: {user: una}, limits: {producer_byte_rate: 10 MB, consumer_byte_rate: 1536 KiB/s, "
        "request_percentage: 12.5%}}]"
    )
    assert invoke_weir(broker, "plan", str(file)) == (0, "Nothing to change.\n")
    assert invoke_weir(broker, "remove", "--user", "una", *row["limits"])[0] == 0


def test_a_temporary_limit_is_set_shown_kept_in_a_file_and_ended(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    orders, key = ["--user", "orders"], "producer_byte_rate"
    assert invoke_weir(broker, "set", *orders, f"{key}=10MB") == (0, "user orders: done\n")
    assert invoke_weir(broker, "set", *orders, f"{key}=50MB", "--until", "2h") == (0, "user orders: done\n")

    def row() -> str:
        (found,) = (line for line in invoke_weir(broker, "list")[1].splitlines() if "orders" in line)
        return found

    assert "50 MB/s" in row()
    assert re.search("ends in (2 h|1 h [0-9]+ min); else 10 MB/s", row())
    _, exported = invoke_weir(broker, "export")
    file = tmp_path / "quotas.yaml"
    file.write_text(exported)
    assert invoke_weir(broker, "plan", "--prune", str(file)) == (0, "Nothing to change.\n")
    window = ["--weekly", "Mon-Sun 00:00-23:59 Europe/Berlin"]
    invoke_weir(broker, "set", *orders, f"{key}=60MB", *window)
    assert "Mon-Sun 00:00-23:59 Europe/Berlin" in row()
    code, planned = invoke_weir(broker, "plan", str(file))
    assert code == 2
    assert planned.startswith(
        f"user orders  {key}  60 MB/s Mon-Sun 00:00-23:59 Europe/Berlin -> 50 MB/s until "
    )
    assert invoke_weir(broker, "apply", str(file)) == (0, planned)
    assert re.search("ends in (2 h|1 h [0-9]+ min); else 10 MB/s", row())
    assert invoke_weir(broker, "remove", *orders, key) == (0, "user orders: done\n")
    assert "else no limit" in row()
    code, refused = invoke_weir(broker, "remove", *orders, key)
    assert (code, "(--temporary removes the temporary one)" in refused) == (1, True)
    assert invoke_weir(broker, "remove", *orders, "--temporary", key) == (0, "user orders: done\n")
    code, refused = invoke_weir(broker, "remove", *orders, "--temporary", key)
    assert (code, refused) == (
        1,
        "Error: user orders has no temporary producer_byte_rate; nothing was removed\n",
    )
    assert invoke_weir(broker, "list", "--search", "orders")[1] == "No rule has this name.\n"


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (["--until", "2020-01-01"], "is in the past"),
        (["--from", "4h", "--until", "2h"], "is not after from"),
        (["--until", "soon"], "--until soon: expected a time such as 18:00"),
        (["--weekly", "Mon 09:00-17:00 Mars/Olympus"], "unknown time zone 'Mars/Olympus'"),
        (["--weekly", "Mon 09:00-09:00"], "begins and ends at the same time"),
        (["--weekly", "Workdays"], "expected days and times"),
    ],
)
def test_times_that_make_no_sense_are_refused_in_plain_words(
    broker: BrokerProcess, times: list[str], problem: str
) -> None:
    code, text = invoke_weir(broker, "set", "--user", "nobody", "producer_byte_rate=1MB", *times)
    assert code in (1, 2)
    assert problem in text


def test_limits_are_tried_in_shadow_and_enforced_later(broker: BrokerProcess, tmp_path: Path) -> None:
    zoe = ["--user", "zoe"]
    assert invoke_weir(broker, "set", *zoe, "--shadow", "producer_byte_rate=7") == (0, "user zoe: done\n")
    row = next(line for line in invoke_weir(broker, "list")[1].splitlines() if "zoe" in line)
    assert row.split() == [
        "user",
        "zoe",
        "producer_byte_rate",
        "7",
        "B/s",
        "-",
        "0",
        "0",
        "times,",
        "0.0",
        "s",
    ]
    _, exported = invoke_weir(broker, "export")
    assert "shadow: true" in exported
    file = tmp_path / "quotas.yaml"
    file.write_text("quotas: [{entity: {user: zoe}, limits: {producer_byte_rate: 7}}]")
    assert invoke_weir(broker, "plan", str(file)) == (2, "user zoe  enforced\n")
    assert invoke_weir(broker, "apply", str(file)) == (0, "user zoe  enforced\n")
    assert invoke_weir(broker, "plan", str(file)) == (0, "Nothing to change.\n")
    assert invoke_weir(broker, "set", *zoe, "--shadow") == (0, "user zoe: done\n")
    assert invoke_weir(broker, "set", *zoe, "--enforce") == (0, "user zoe: done\n")
    assert invoke_weir(broker, "remove", *zoe, "producer_byte_rate")[0] == 0


def test_a_resolved_edit_is_reported_and_not_made(broker: BrokerProcess) -> None:
    assert weir(broker, "set", "--user-default", "producer_byte_rate=500")[0] == 0
    command = ["resolve", "--user", "ian", "--client-id", "app", "--ip", "10.0.0.7"]
    edits = [
        "--if",
        "user=ian,client-id:producer_byte_rate=300,shadow",
        "--if",
        "ip=10.0.0.7:connection_creation_rate=2",
    ]
    status, output = weir(broker, *command, *edits)
    lines = [line.strip() for line in output.splitlines()]
    assert status == 0
    assert "producer_byte_rate: 500 B/s" in lines
    assert "then: 300 B/s by user ian, default client-id" in lines
    assert "then: 2/s by ip 10.0.0.7" in lines
    assert "then: no limit" in lines
    assert "then" not in weir(broker, *command)[1]
    _, gone = weir(broker, *command, "--if", "user:producer_byte_rate=")
    assert gone.splitlines()[9] == "  then: no limit"
    assert "ian" not in weir(broker, "list")[1]
    assert weir(broker, "remove", "--user-default", "producer_byte_rate")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resolve", "--if", "user=eve"], "expected ENTITY:LIMITS"),
        (["resolve", "--if", "user=eve,user=bob:producer_byte_rate=1"], "user is given twice"),
        (["resolve", "--if", "colour=eve:producer_byte_rate=1"], "unknown"),
        (["resolve", "--if", "user=eve:producer_byte_rate=many"], "many: enter a number with a unit"),
        (["resolve", "--if", "user=eve:producer_byte_rate=1.5"], "1.5: enter a whole number"),
        (["set", "--user", "eve", "producer_byte_rate=1.5"], "1.5: enter a whole number"),
        (
            ["set", "--user", "eve", "produce=10MB"],
            "unknown limit produce; expected one of producer_byte_rate,",
        ),
        (
            ["resolve", "--if", "user=eve:produce=1"],
            "unknown limit produce; expected one of producer_byte_rate,",
        ),
        (["set", "--user", "eve", "producer_byte_rate=many"], "many: enter a number with a unit"),
        (["set", "producer_byte_rate=1"], "no entity:"),
        (["set", "--user", "eve"], "no limit:"),
        (["set", "--user", "eve", "--shadow"], "user eve has no limit to put in shadow mode"),
        (["set", "--ip", "10.0.0.7", "--shadow", "connection_creation_rate=1"], "Shadow mode does not apply"),
        (["set", "--user", "eve", "--user-default", "producer_byte_rate=1"], "exclude each other"),
        (["set", "--user", "eve", "producer_byte_rate=nan"], "nan: enter a number with a unit"),
        (
            ["set", "--user", "eve", "producer_byte_rate=10,000"],
            "10,000 may mean 10000 or 10; write 10000 or 10",
        ),
        (["set", "--user", "eve", "producer_byte_rate"], "expected KEY=VALUE"),
        (["set", "--user", "eve", "producer_byte_rate="], "enter a number with a unit"),
        (["set", "--user", "eve", "producer_byte_rate=0"], "enter a value greater than 0"),
        (["set", "--user", "eve", "producer_byte_rate=\u0661"], "enter a number with a unit"),
        (["set", "--user", "eve", "=1"], "expected KEY=VALUE"),
        (
            ["set", "--user", "eve", "request_percentage=1", "producer_byte_rate=-1"],
            "producer_byte_rate=-1: enter a number without a sign",
        ),
        (
            ["set", "--user", "eve\x1b[2J", "producer_byte_rate=1"],
            r"user eve\x1b[2J: The user has the control",
        ),
        (["set", "--user", "", "producer_byte_rate=1"], 'user "": Empty user not supported'),
        (
            ["remove", "--user", "eve", "producer_rate"],
            "unknown limit producer_rate; expected one of producer_byte_",
        ),
        (["plan", "/nonexistent"], "No such file or directory"),
    ],
)
def test_invalid_input_is_reported_and_changes_nothing(
    broker: BrokerProcess, arguments: list[str], words: str
) -> None:
    status, output = invoke_weir(broker, *arguments)
    assert status in (1, 2) and words in output
    assert "eve" not in invoke_weir(broker, "list")[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is not YAML"),
        ("quotas: [{entity: {user: eve}, limits: {nonsense: 1}}]", "unknown"),
        (
            "quotas: [{entity: {user: eve}, limits: {producer_byte_rate: 1.5}}]",
            "user eve: producer_byte_rate",
        ),
        (
            "quotas: [{entity: {user: eve}, limits: {producer_byte_rate: 1}}, "
            "{entity: {ip: nowhere}, limits: {connection_creation_rate: 1}}]",
            "no quota was changed:\n  line 1: ip nowhere: nowhere is not a valid IP",
        ),
        (
            "quotas: [{entity: {user: eve}, limits: {producer_byte_rate: .nan}}]",
            "  line 1: /quotas/0/limits/producer_byte_rate: enter a number with a unit",
        ),
        (
            "quotas: [{entity: {user: eve}, limits: {producer_byte_rate: '1,5 MB'}}]",
            "producer_byte_rate: 1,5 may mean 15 or 1.5; write 15 or 1.5",
        ),
        (
            "quotas: [{entity: {user: eve, user: eve}, limits: {}}]",
            "  line 1: quotas[0].entity.user: is given twice",
        ),
        ("", "The file is empty"),
        ("limits: []", "unknown field; allowed: quotas"),
        (
            "quotas:\n- entity: {user: eve}\n  limit: 1\n- entity: {user: eve}\n  limits: {}\n",
            "no quota was changed:\n  line 2: /quotas/0/limit: unknown field; allowed: entity, limits, "
            "temporary, shadow\n  line 4: user eve: /limits: must have at least 1 of ",
        ),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    broker: BrokerProcess, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "quotas.yaml"
    file.write_text(text)
    for doing in ("plan", "apply"):
        status, output = invoke_weir(broker, doing, str(file))
        assert status == 1 and words in output
    assert "eve" not in invoke_weir(broker, "list")[1]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://127.0.0.1", "invalid console URL: ftp://127.0.0.1 (expected http:// or https://)"),
        ("http://127.0.0.1:1", "no console responds at http://127.0.0.1:1: [Errno 111] Connection refused"),
        ("http://", "no console responds at http://: no host given"),
        ("http://127.0.0.1:none", "no console responds at http://127.0.0.1:none: "),
    ],
)
def test_a_server_that_is_not_a_console_is_reported(broker: BrokerProcess, url: str, words: str) -> None:
    status, output = invoke_weir(broker, "--console", url, "list")
    assert status == 1 and output.startswith(f"Error: {words}") and output.count("\n") == 1


def test_a_port_of_kafka_is_no_console(broker: BrokerProcess) -> None:
    status, output = invoke_weir(broker, "--console", f"http://{broker.plain}", "list")
    assert status == 1 and output.startswith(f"Error: no console responds at http://{broker.plain}: ")


@pytest.mark.parametrize(
    "command", [(), ("list",), ("set",), ("remove",), ("resolve",), ("plan",), ("apply",)]
)
def test_help_needs_no_token(broker: BrokerProcess, command: tuple[str, ...]) -> None:
    status, output = invoke_weir(broker, *command, "--help", token="")
    assert status == 0 and output.startswith(" ".join(("Usage: quotas", *command)))


def test_removing_what_is_not_there_fails(broker: BrokerProcess) -> None:
    key = "producer_byte_rate"
    assert invoke_weir(broker, "set", "--user", "rae", f"{key}=1kB")[0] == 0
    for entity, name in (
        (["--user", "rae", "--client-id", "app"], "user rae, client-id app"),
        (["--user-default"], "default user"),
        (["--ip", "10.9.9.9"], "ip 10.9.9.9"),
    ):
        refused = (1, f"Error: {name} has no {key}; nothing was removed\n")
        assert invoke_weir(broker, "remove", *entity, key) == refused
    both = invoke_weir(broker, "remove", "--user", "rae", key, "consumer_byte_rate")
    assert both == (1, "Error: user rae has no consumer_byte_rate; nothing was removed\n")
    assert invoke_weir(broker, "remove", "--user", "rae", key) == (0, "user rae: done\n")
    assert invoke_weir(broker, "remove", "--user", "rae", key)[0] == 1


def test_the_list_fits_the_terminal_and_is_whole_elsewhere(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "n" * 240
    assert invoke_weir(broker, "set", "--user", name, "producer_byte_rate=1kB")[0] == 0
    monkeypatch.setenv("COLUMNS", "80")
    _, listed = invoke_weir(broker, "list", "--search", "NNN")
    assert max(map(len, listed.splitlines())) == 80 and "nnn…" in listed
    assert f"user {name}," in invoke_weir(broker, "list", "--output", "csv")[1]
    assert name in invoke_weir(broker, "list", "--output", "json")[1]
    assert invoke_weir(broker, "list", "--search", "nobody") == (0, "No rule has this name.\n")
    assert invoke_weir(broker, "remove", "--user", name, "producer_byte_rate")[0] == 0


def test_without_the_right_token_nothing_is_reported(broker: BrokerProcess) -> None:
    status, output = invoke_weir(broker, "list", token="a-token-that-nobody-has")
    assert status == 1 and "token" in output.lower()
    assert invoke_weir(broker, "list", token="") == (
        1,
        "Error: no token: set WEIR_TOKEN or WEIR_ADMIN_TOKEN\n",
    )
    assert invoke_weir(broker, "list", token="two\nlines") == (
        1,
        "Error: invalid token: expected printable ASCII\n",
    )


def test_a_limit_that_never_binds_is_set_with_a_warning(broker: BrokerProcess) -> None:
    limit = ("set", "--user", "warned")
    assert weir(broker, *limit, "request_percentage=100") == (0, "user warned: done\n")
    status, output = weir(broker, *limit, "request_percentage=800")
    assert (status, output.splitlines()[0]) == (0, "user warned: done")
    assert "Warning: request_percentage=800 never takes effect" in output
    weir(broker, "remove", "--user", "warned", "request_percentage")
