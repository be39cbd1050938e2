"""POST /topics/{name}/records:browse: records of a topic; GET one of them; POST /topics/{name}/records:
produce one.

A reading stops at the limits of console.browse.*, says where, and continues with its cursor.
broker.controller checks the role and logs each reading apart from the changes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from weakref import finalize

import trio

from broker.config.sections.console import ConsoleConfig
from broker.controller.commands import Role
from broker.controller.topic_records import (
    MAX_CONDITION,
    MAX_PARTITIONS,
    BrowseRecords,
    Condition,
    ConditionError,
    FoundRecord,
    FoundRecords,
    PartitionPosition,
    ProducedRecord,
    ProduceRecord,
    RecordFilter,
    Start,
    StartKind,
    Stop,
    UnreadableBatch,
)
from webui.decoding.decoder import Decoded
from webui.decoding.schema import SCHEMA, DataSchema, read_schema
from webui.problem import PROBLEM, Problem
from webui.rest.record_json import (
    DATA,
    LARGEST_OFFSET,
    LATEST_MOMENT,
    LONGEST_CURSOR,
    LONGEST_VALUE,
    RECORD,
    bytes_of,
    cursor_of,
    read_cursor,
    record_json,
)
from webui.rest.routing import Call, Query, Reply, ResponseSpec, Route
from webui.schema import COUNT, Flag, Invalid, Listing, Maybe, Number, OneOf, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.slices import collect

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 10_000
MAX_HEADERS: Final = 100
LONGEST_FILTER: Final = 1_024

OCTETS: Final = "application/octet-stream"

SENT_AT_ONCE: Final = 262_144
"""Bytes of a large record that are copied and sent at once."""

_OFFSET: Final = Number(integer=True, minimum=0, maximum=LARGEST_OFFSET)
_COUNT: Final = Number(integer=True, minimum=1, maximum=MAX_LIMIT)
_PARTITION: Final = Number(integer=True, minimum=0, maximum=2**31 - 1)
_FROM: Final = OneOf(
    (
        Record({"earliest": Flag(only=True)}),
        Record({"latest": _COUNT}),
        Record({"offset": _OFFSET}),
        Record({"timestamp_ms": Number(integer=True, minimum=0, maximum=LATEST_MOMENT)}),
    )
)
_QUESTION: Final[dict[str, Any]] = {
    "from": _FROM,
    "cursor": Text(min_length=1, max_length=LONGEST_CURSOR),
    "partitions": Listing(_PARTITION, min_items=1, max_items=MAX_PARTITIONS),
    "limit": _COUNT,
    "key": DATA,
    "contains": Text(min_length=1, max_length=LONGEST_FILTER),
    "where": Text(min_length=1, max_length=MAX_CONDITION),
    "follow": Flag(),
    "key_schema": SCHEMA,
    "value_schema": SCHEMA,
}
BROWSED: Final = Record(
    {
        "items": Listing(RECORD),
        "next": Text(max_length=LONGEST_CURSOR, nullable=True),
        "stopped": Text(choices=tuple(Stop)),
        "read_records": COUNT,
        "read_bytes": COUNT,
        "partitions": Listing(schema_of(PartitionPosition)),
        "unreadable": Listing(schema_of(UnreadableBatch)),
    }
)
_HEADER: Final = Record({"name": Text(max_length=LONGEST_VALUE), "value": Maybe(DATA)})
PRODUCED: Final = schema_of(ProducedRecord)


async def browse(call: Call) -> Reply:
    body = call.body
    if "from" in body and "cursor" in body:
        raise Invalid("/cursor", "continues an earlier reading, so there must be no `from`")
    schemas = [read_schema(body.get(field), f"/{field}") for field in ("key_schema", "value_schema")]
    limit = body.get("limit", DEFAULT_LIMIT)
    start = Start(StartKind.EARLIEST) if "cursor" in body else _start(body.get("from"), limit)
    command = BrowseRecords(
        call.path_params["name"],
        start,
        tuple(body.get("partitions", ())),
        read_cursor(body["cursor"]) if "cursor" in body else (),
        RecordFilter(
            bytes_of(body.get("key"), "/key"), _encoded(body.get("contains")), _condition(body.get("where"))
        ),
        limit,
        is_whole=any(schemas),
        is_following=body.get("follow", False),
    )
    found: FoundRecords = await call.apply(command)
    items = await _items(call, found.records, *schemas)
    return Reply(
        {
            "items": items,
            "next": _next(found, is_following=command.is_following),
            "stopped": found.stopped,
            "read_records": found.read_records,
            "read_bytes": found.read_bytes,
            "partitions": list(map(as_json, found.positions)),
            "unreadable": list(map(as_json, found.unreadable)),
        }
    )


def _start(given: Mapping[str, Any] | None, limit: int) -> Start:
    match given:
        case {"earliest": _}:
            return Start(StartKind.EARLIEST)
        case {"offset": offset}:
            return Start(StartKind.OFFSET, offset)
        case {"timestamp_ms": moment}:
            return Start(StartKind.TIMESTAMP, moment)
        case {"latest": count}:
            return Start(StartKind.LATEST, count)
    return Start(StartKind.LATEST, limit)


def _next(found: FoundRecords, *, is_following: bool) -> str | None:
    if is_following:
        return cursor_of(found.positions, at_ends=True)
    return None if found.stopped is Stop.END else cursor_of(found.positions)


def _condition(text: str | None) -> Condition | None:
    """Raises Invalid."""
    try:
        return None if text is None else Condition(text)
    except ConditionError as error:
        raise Invalid("/where", str(error)) from None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


async def _items(
    call: Call, records: Sequence[FoundRecord], key_schema: DataSchema | None, value_schema: DataSchema | None
) -> list[dict[str, Any]]:
    longest = call.console.settings.browse_max_shown_bytes
    keys = await _decoded(call, key_schema, records, "key")
    values = await _decoded(call, value_schema, records, "value")
    rows = zip(records, keys, values, strict=True)
    return await collect((record_json(each, key, value, longest) for each, key, value in rows))


async def _decoded(
    call: Call, schema: DataSchema | None, records: Sequence[FoundRecord], part: str
) -> list[Decoded | None]:
    """Decode the keys or the values of the records that have one."""
    decoded: list[Decoded | None] = [None] * len(records)
    if schema is None:
        return decoded
    cuts = {at: cut for at, each in enumerate(records) if (cut := getattr(each, part)) is not None}
    whole = {at: bytes(cut.kept) for at, cut in cuts.items() if len(cut.kept) == cut.size}
    longest = call.console.settings.browse_max_shown_bytes
    texts = await call.console.decoder.decode(schema, list(whole.values()), longest, f"/{part}_schema")
    for at in cuts:
        decoded[at] = Decoded(None, "not decoded: it is too large")
    for at, text in zip(whole, texts, strict=True):
        decoded[at] = text
    return decoded


async def get_record(call: Call) -> Reply:
    """Return one record, or its whole key or value as bytes to be saved."""
    name, partition, offset = (call.path_params[each] for each in ("name", "partition", "offset"))
    part = call.query["part"]
    command = BrowseRecords(
        name,
        Start(StartKind.OFFSET, offset),
        positions=((partition, offset),),
        limit=1,
        is_download=part is not None,
    )
    found: FoundRecords = await call.apply(command)
    if not found.records or found.records[0].offset != offset:
        raise Problem(404, f"{name}-{partition} has no record at offset {offset}.")
    record = found.records[0]
    if part is None:
        (item,) = await _items(call, [record], None, None)
        return Reply(item)
    cut = record.key if part == "key" else record.value
    if cut is None:
        raise Problem(404, f"The record has no {part}: it is null.")
    headers = {"Content-Disposition": f'attachment; filename="{name}-{partition}-{offset}-{part}.bin"'}
    if isinstance(cut.kept, bytes):
        return Reply(cut.kept, headers=headers, media=OCTETS)
    try:
        call.console.downloads.acquire_nowait()
    except trio.WouldBlock:
        detail = "Another record of more than 1 MB is being downloaded."
        raise Problem(503, detail, headers={"Retry-After": "10"}) from None
    headers["Content-Length"] = str(cut.size)
    sent = _downloaded(cut.kept)
    # A response to HEAD, or to a client that is gone, is never begun.
    finalize(sent, call.console.downloads.release).atexit = False
    return Reply(sent, headers=headers, media=OCTETS)


async def _downloaded(data: memoryview) -> AsyncIterator[bytes]:
    for at in range(0, len(data), SENT_AT_ONCE):
        yield bytes(data[at : at + SENT_AT_ONCE])


async def produce(call: Call) -> Reply:
    body, name = call.body, call.path_params["name"]
    headers = tuple(
        (each["name"], bytes_of(each["value"], f"/headers/{at}/value"))
        for at, each in enumerate(body.get("headers", ()))
    )
    command = ProduceRecord(
        name,
        bytes_of(body.get("key"), "/key"),
        bytes_of(body["value"], "/value"),
        headers,
        body.get("partition"),
    )
    produced = await call.apply(command)
    call.console.live.refresh()
    location = f"/api/v1/topics/{name}/partitions/{produced.partition}/records/{produced.offset}"
    return Reply(as_json(produced), status=201, headers={"Location": location})


def browse_role(settings: ConsoleConfig) -> Role:
    return Role[settings.browse_role.upper()]


_NAME: Final = Query("name", Text(min_length=1), "The topic's name.")
_GONE: Final = ResponseSpec("The topic, a partition or the record does not exist", PROBLEM)

ROUTES: Final = (
    Route(
        "POST /api/v1/topics/{name}/records:browse",
        "browseRecords",
        "Reads records in the order of time: `from` the earliest, an offset, a time, or the latest few (the "
        "default); or from the `cursor` of an earlier answer. `key` and `contains` select records by their "
        "exact key and by a text in key, value or header, `where` by a condition on key, value and the "
        'JSON of the value, such as `$.total > 100 and not $.items[*].sku == "x"`. With `follow`, `next` is '
        "given at the end too, to ask later for what is new. Stops at the limits of console.browse.*, "
        "`stopped` says why, and `next` is the cursor to go on, null at the end. Requires the role of "
        "console.browse.role. Logged apart from changes: GET `/audit?log=reads`.",
        browse,
        {
            200: ResponseSpec(
                "Records. The bytes of each key, value and header are `text` if they are UTF-8, else "
                "`base64`; `decoded` is JSON by the given schema, `error` says why there is none",
                BROWSED,
            ),
            404: _GONE,
        },
        body=Record(_QUESTION, optional=frozenset(_QUESTION)),
        has_list=True,
        path_params=(_NAME,),
        role=browse_role,
    ),
    Route(
        "POST /api/v1/topics/{name}/records",
        "produceRecord",
        "Appends one record. A value of null is a tombstone. Without `partition`, the key selects it as "
        "Kafka's Java producer does. Requires the role editor. In the audit trail.",
        produce,
        {
            201: ResponseSpec("Where the record is; Location: the record", PRODUCED),
            404: _GONE,
            409: ResponseSpec("The topic does not accept records now", PROBLEM),
        },
        example={"key": {"text": "alice"}, "value": {"json": "{}"}, "partition": 0},
        body=Record(
            {
                "partition": _PARTITION,
                "key": Maybe(DATA),
                "value": Maybe(DATA),
                "headers": Listing(_HEADER, max_items=MAX_HEADERS),
            },
            optional=frozenset({"partition", "key", "headers"}),
        ),
        has_list=True,
        path_params=(_NAME,),
        role=Role.EDITOR,
    ),
    Route(
        "GET /api/v1/topics/{name}/partitions/{partition}/records/{offset}",
        "getRecord",
        "One record; with `part`, its whole key or value as bytes. Requires the role of "
        "console.browse.role. Logged apart from changes: GET `/audit?log=reads`.",
        get_record,
        {200: ResponseSpec("The record, or the bytes", RECORD, also=(OCTETS,)), 404: _GONE},
        query=(Query("part", Text(choices=("key", "value")), "The whole key or value as bytes."),),
        path_params=(
            _NAME,
            Query("partition", _PARTITION, "The partition."),
            Query("offset", _OFFSET, "The offset."),
        ),
    ),
)
