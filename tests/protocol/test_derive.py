"""The committed modules are what derive.py generates from the installed kio, and import quickly."""

import subprocess
import sys

import pytest

from broker.protocol import derive
from broker.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    RequestEntryData,
    ResponseEntryData,
)
from broker.protocol.messages.metadata import MetadataRequest


@pytest.fixture(scope="module")
def derived():
    return derive.derive()


def test_deriving_again_gives_what_is_committed(derived):
    committed = {path.name: path.read_text() for path in derive.MESSAGES.glob("*.py")}
    assert committed == derived


def test_check_names_what_differs_and_writes_nothing(derived, tmp_path, monkeypatch, capsys):
    for name, text in derived.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(derive, "MESSAGES", tmp_path)
    monkeypatch.setattr(derive, "derive", lambda: derived)
    assert derive.main(["--check"]) == 0
    (tmp_path / "fetch.py").write_text("edited")
    (tmp_path / "stray.py").write_text("")
    assert derive.main(["--check"]) == 1
    assert capsys.readouterr().out == "differs: fetch.py\ndoes not belong: stray.py\n"
    assert (tmp_path / "fetch.py").read_text() == "edited"
    assert derive.main([]) == 0
    assert derive.main(["--check"]) == 0


def test_structs_that_differ_between_request_and_response_have_two_names():
    assert AlterClientQuotasRequest.FIELDS[0].type is RequestEntryData
    assert AlterClientQuotasResponse.FIELDS[1].type is ResponseEntryData
    assert RequestEntryData.FIELDS[0].type is ResponseEntryData.FIELDS[2].type is EntityData


def test_a_field_knows_from_when_it_may_be_null():
    (topics, *_) = MetadataRequest.FIELDS
    assert (topics.name, topics.since, topics.until, topics.nullable, topics.array) == (
        "topics",
        0,
        13,
        1,
        True,
    )


def test_the_broker_never_imports_kio_nor_a_message_that_it_was_not_asked_for():
    script = (
        "import sys; import broker.protocol.codec as codec; codec.decode_request(0, 9);"
        "print([name for name in sorted(sys.modules) if name.split('.')[0] == 'kio' or '.messages.' in name])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "['broker.protocol.messages.produce']\n"
