"""Kafka's small files, read and written; a damaged file of offsets is read from its copy."""

import pytest

from broker.log.checkpoints import (
    FIRST_EPOCH_TEXT,
    OffsetFile,
    lines_text,
    offset_line,
    parse_offsets,
    parse_partition_text,
    partition_text,
    write_offsets,
)
from broker.log.layout import parse_partition, parse_segment_file, partition_directory, segment_file

OFFSETS = {("a", 0): 5, ("a-b.c", 12): 2**40}


def test_offsets_are_read_back():
    text = lines_text([offset_line(key, offset) for key, offset in OFFSETS.items()])
    assert text == b"0\n2\na 0 5\na-b.c 12 1099511627776\n"
    assert parse_offsets(text) == OFFSETS
    assert parse_offsets(lines_text([])) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"0\n",
        b"1\n1\na 0 5\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 5\n",
        b"0\nx\na 0 5\n",
        b"\xff\xfe",
    ],
)
def test_a_damaged_file_of_offsets_says_nothing(content):
    assert parse_offsets(content) is None


def test_the_first_epoch_has_kafkas_format():
    assert FIRST_EPOCH_TEXT == b"0\n1\n0 0\n"


def test_topic_ids_are_read_back():
    assert parse_partition_text(partition_text(bytes(range(16)))) == bytes(range(16))
    assert parse_partition_text(b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n") == bytes(range(16))


@pytest.mark.parametrize(
    "content", [None, b"", b"version: 0\n", b"topic_id: AAEC", b"topic_id: !!", b"topic_id: A"]
)
def test_a_damaged_partition_file_has_no_topic_id(content):
    assert parse_partition_text(content) is None


def test_a_file_of_offsets_is_saved_when_it_changes(tmp_path):
    file = OffsetFile(str(tmp_path), "offsets")
    file.read(is_replaceable=True)
    assert file.offsets == {}
    file.keep(set())
    file.drop(("a", 0))
    assert not (tmp_path / "offsets").exists()
    file.set(("a", 0), 5)
    file.set(("b", 1), 6)
    assert saved(tmp_path) == {("a", 0): 5, ("b", 1): 6}
    file.keep({("b", 1)})
    assert saved(tmp_path) == {("b", 1): 6}
    file.drop(("b", 1))
    assert saved(tmp_path) == {}


def saved(where):
    file = OffsetFile(str(where), "offsets")
    assert file.read(is_replaceable=False) is None
    return file.offsets


A5, A6 = b"0\n1\na 0 5\n", b"0\n1\na 0 6\n"
BROKEN = b"0\n2\na 0 5\n"


@pytest.mark.parametrize(
    ("content", "copy", "found", "reported"),
    [
        (A5, A5, 5, None),
        (A6, A5, 5, "the file differs from its copy, which was used"),
        (BROKEN, A5, 5, "the file differs from its copy, which was used"),
        (None, A5, 5, "the file is missing; its copy was used"),
        (A5, None, 5, None),
        (A5, b"damaged", 5, "the copy of the file is damaged"),
        (BROKEN, None, None, "the file cannot be read, so every log was checked"),
        (None, b"damaged", None, "the file cannot be read, so every log was checked"),
        (None, None, None, None),
    ],
)
def test_a_file_of_offsets_and_its_copy_are_compared(tmp_path, content, copy, found, reported):
    path = tmp_path / "offsets"
    if copy is not None:
        write_offsets(str(path), copy)
    if copy == b"damaged":
        path.with_name("offsets.copy").write_bytes(b"0\n1\na 0 9\ncrc32c 17\n")
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    file = OffsetFile(str(tmp_path), "offsets")
    assert file.read(is_replaceable=True) == reported
    assert file.offsets.get(("a", 0)) == found
    assert file.is_proven == (copy == A5)
    file.keep({("a", 0)})
    assert saved(tmp_path) == ({} if found is None else {("a", 0): 5})


@pytest.mark.parametrize(("content", "copy"), [(b"", b""), (b"", None), (None, b"")])
def test_empty_log_start_offsets_are_returned(tmp_path, content, copy):
    """As a power failure can leave them."""
    for name, each in (("offsets", content), ("offsets.copy", copy)):
        if each is not None:
            (tmp_path / name).write_bytes(each)
    file = OffsetFile(str(tmp_path), "offsets")
    reported = file.read(is_replaceable=False)
    assert reported == "the file is empty, so records that were deleted by DeleteRecords can be read again"
    assert file.offsets == {} and not file.is_proven
    file.keep(set())
    assert saved(tmp_path) == {}


@pytest.mark.parametrize(("content", "copy"), [(BROKEN, None), (b"", b"x"), (None, b"x")])
def test_log_start_offsets_without_a_readable_file_are_refused(tmp_path, content, copy):
    for name, each in (("offsets", content), ("offsets.copy", copy)):
        if each is not None:
            (tmp_path / name).write_bytes(each)
    with pytest.raises(OSError, match="restore one of them, or remove both") as refused:
        OffsetFile(str(tmp_path), "offsets").read(is_replaceable=False)
    assert refused.value.filename == str(tmp_path / "offsets")


@pytest.mark.parametrize(("topic", "index"), [("a", 0), ("a-0", 1), ("a.b_c-d", 999), ("x" * 249, 0)])
def test_names_of_directories_are_read_back(topic, index):
    assert parse_partition(partition_directory(topic, index)) == (topic, index)


@pytest.mark.parametrize(
    "name", ["a", "a-", "-0", "a-x", "a-0.1-delete", "a b-0", "a-0.log", "x" * 250 + "-0"]
)
def test_other_names_are_no_partitions(name):
    assert parse_partition(name) is None


def test_names_of_segments_are_read_back():
    assert segment_file(17, ".log") == "00000000000000000017.log"
    assert parse_segment_file("00000000000000000017.log") == (17, ".log")
    for name in (
        "17.log",
        "00000000000000000017",
        "00000000000000000017.log.deleted",
        "x0000000000000000017.log",
    ):
        assert parse_segment_file(name) is None
