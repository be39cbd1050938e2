"""The process that decodes keys and values: a line for each on standard input, a line for each answer on
standard output.

webui.decoding.decoder starts it as `python -m webui.decoding.worker`. The first line is the question as JSON:
`format`, `schema`, `message`, `is_framed`, `longest` (characters of an answer); each other line is an item in
base64. The first line of the answer is `{"schema": null}`, or the reason why the schema cannot be used; each
other line has the `text` or the `error` of one item, in order. The process ends early, by a limit
of memory or time, on an item that demands too much. Independent of trio and of the broker.
"""

import base64
import io
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import Any, Final

MAX_MEMORY: Final = 512 << 20
MAX_CPU_S: Final = 5

FRAME: Final = 5
"""Bytes of a schema registry's framing: a zero and the schema's id."""

PROTOC_S: Final = 5
LONGEST_REASON: Final = 500

Decode = Callable[[bytes], Any]
"""Returns what JSON can show."""


class Unusable(Exception):  # noqa: N818 - describes a schema
    """The schema cannot be used. The message is for the person who gave it."""


def avro(schema: str) -> Decode:
    """Raises Unusable."""
    from fastavro import parse_schema, schemaless_reader
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        parsed = parse_schema(json.loads(schema))
    except json.JSONDecodeError as error:
        raise Unusable(f"The Avro schema is not JSON: {error}") from error
    except UnknownType as error:
        raise Unusable(f"The Avro schema names the unknown type {error.name}.") from error
    except (SchemaParseException, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Unusable(f"The Avro schema is invalid: {_text(error)}") from error

    def decode(data: bytes) -> Any:
        stream = io.BytesIO(data)
        value = schemaless_reader(stream, parsed, None)
        if stream.tell() != len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes follow the value")
        return value

    return decode


def protobuf(descriptors: bytes, message: str) -> Decode:
    """Raises Unusable."""
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    files, pool = descriptor_pb2.FileDescriptorSet(), descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(descriptors)
    except DecodeError as error:
        raise Unusable("This is no FileDescriptorSet.") from error
    try:
        for each in files.file:
            pool.Add(each)
        found = message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except KeyError as error:
        raise Unusable(f"There is no message {message} in the schema.") from error
    except TypeError as error:
        raise Unusable(
            f"The schema is incomplete or invalid ({_text(error)}); write it with protoc --include_imports."
        ) from error

    def decode(data: bytes) -> Any:
        value = found()
        value.ParseFromString(data)
        return json_format.MessageToDict(value, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def compiled(text: str) -> bytes:
    """Return the FileDescriptorSet of a .proto file. Raises Unusable."""
    compiler = which("protoc")
    if compiler is None:
        raise Unusable(
            "Reading .proto text needs the program protoc on the broker's machine (Debian: "
            "protobuf-compiler), which is not there. Or run protoc --include_imports "
            "--descriptor_set_out=FILE NAME.proto on yours, and give FILE as a FileDescriptorSet."
        )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "schema.proto").write_text(text, encoding="utf-8")
        command = [
            compiler,
            f"-I{folder}",
            "--include_imports",
            f"--descriptor_set_out={folder}/set",
            "schema.proto",
        ]
        try:
            ended = subprocess.run(command, capture_output=True, timeout=PROTOC_S, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unusable(f"protoc failed: {_text(error)}") from error
        if ended.returncode:
            raise Unusable(f"protoc: {ended.stderr.decode(errors='replace').strip()[:LONGEST_REASON]}")
        return (Path(folder) / "set").read_bytes()


def decoder_of(question: Mapping[str, Any]) -> Decode:
    """Raises Unusable."""
    schema = question["schema"]
    if question["format"] == "avro":
        return avro(schema)
    if question["format"] == "proto":
        return protobuf(compiled(schema), question["message"])
    try:
        return protobuf(base64.b64decode(schema, validate=True), question["message"])
    except ValueError as error:
        raise Unusable("The FileDescriptorSet is not in base64.") from error


def unframed(data: bytes, format_: str) -> bytes:
    """Return the bytes after a schema registry's framing. Raises ValueError."""
    if len(data) < FRAME or data[0]:
        raise ValueError("no framing of a schema registry: the first byte is not 0, or fewer than 5 bytes")
    if format_ == "avro":
        return data[FRAME:]
    # The path of the message type in its file follows: a count and as many indexes, zigzag varints; 0 is
    # short for [0].
    count, at = _varint(data, FRAME)
    for _ in range(count >> 1):
        _, at = _varint(data, at)
    return data[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 32:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("the message index of the framing is damaged")


def shown(value: Any, longest: int) -> str:
    """Return the value as indented JSON, at most `longest` characters of it."""
    parts, size = [], 0
    for part in json.JSONEncoder(ensure_ascii=False, indent=2, default=_plain).iterencode(value):
        parts.append(part)
        size += len(part)
        if size > longest:
            return f"{''.join(parts)[:longest]}..."
    return "".join(parts)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _text(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST_REASON]


def answers(question: Mapping[str, Any], items: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """`items` are in base64."""
    try:
        decode = decoder_of(question)
    except Unusable as error:
        yield {"schema": str(error)}
        return
    yield {"schema": None}
    for item in items:
        data = base64.b64decode(item)
        try:
            if question["is_framed"]:
                data = unframed(data, question["format"])
            yield {"text": shown(decode(data), question["longest"])}
        except MemoryError:
            yield {"error": "decoding it takes too much memory"}
        except RecursionError:
            yield {"error": "it is nested too deeply"}
        except Exception as error:  # noqa: BLE001 - the libraries raise many types for damaged data
            yield {"error": _text(error)}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question = json.loads(sys.stdin.buffer.readline())
    for answer in answers(question, sys.stdin.buffer):
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
