"""GET /transactions, as a list and single items, and POST /transactions/{transactional_id}:abort.

broker.controller checks the role and the state, and records an abort.
"""

import shlex
from typing import Final

from broker.controller.commands import Role
from broker.controller.rows.client_endpoint import ClientEndpoint
from broker.controller.rows.topics import TransactionPartition, TransactionRow
from broker.controller.transaction_changes import AbortResult, AbortTransaction
from broker.views.readings import Part
from webui.problem import PROBLEM, Problem
from webui.rest.paging import page_query, page_schema, table_page
from webui.rest.routing import Call, PathName, Query, Reply, ResponseSpec, Route
from webui.rest.upstream import fresh, read_schema
from webui.schema import COUNT, Flag, Listing, Number, Record, Text
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import Table
from webui.tables.slices import collect, run_in_slices

LAST_EPOCH: Final = 32_767
LAST_ID: Final = 2**63 - 1


TRANSACTIONS: Final[Table[TransactionRow]] = Table(
    json=as_json,
    search_texts=lambda row: (row.transactional_id, row.state, row.principal, row.client_id),
    default_sort="name",
    sort_key=lambda row: row.transactional_id,
    sorts={
        "state": lambda row: row.state,
        "client": lambda row: (row.principal, row.client_id),
        "open": lambda row: row.open_since_ms,
        "updated": lambda row: row.updated_ms,
        "partitions": lambda row: row.partitions,
        "holding": lambda row: row.holding_back,
    },
    filters={
        "open": lambda row: row.open_since_ms is not None,
        "holding": lambda row: row.holding_back > 0,
        "ended": lambda row: row.open_since_ms is None,
    },
)

_EPOCH: Final = Number(integer=True, minimum=-1, maximum=LAST_EPOCH)
_ID: Final = Number(integer=True, minimum=0, maximum=LAST_ID)
TRANSACTION: Final = schema_of(TransactionRow, "Transaction")
TRANSACTION_PAGE: Final = read_schema(page_schema(TRANSACTION))
TRANSACTION_DETAIL: Final = read_schema(
    schema_of(
        TransactionRow,
        "TransactionDetail",
        partition_list=Listing(schema_of(TransactionPartition), max_items=1_000_000),
    )
)
ABORTED: Final = Record(
    {"producer_id": _ID, "producer_epoch": _EPOCH, "partitions": COUNT, "command": Text(max_length=100_000)}
)


async def transactions(call: Call) -> Reply:
    read = await fresh(call, Part.TRANSACTIONS)
    return Reply(await table_page(call, TRANSACTIONS, call.views.topics.each_transaction()) | read)


async def transaction(call: Call) -> Reply:
    read = await fresh(call, Part.TRANSACTION, call.path_params["transactional_id"])
    detail = await run_in_slices(call.views.topics.transaction(call.path_params["transactional_id"]))
    if detail is None:
        raise Problem(404, "Transactional id not found.")
    partitions = await collect(map(as_json, detail.partitions))
    return Reply(as_json(detail.transaction) | {"partition_list": partitions} | read)


async def abort(call: Call) -> Reply:
    body = call.body
    command = AbortTransaction(
        call.path_params["transactional_id"],
        int(body.get("producer_id", -1)),
        int(body.get("producer_epoch", -1)),
        call.query["validate_only"],
    )
    aborted: AbortResult = await call.apply(command)
    if not command.validate_only:
        call.console.live.refresh()
    line = terminate_command(call.views.server_info().endpoint, command.transactional_id)
    return Reply(as_json(aborted) | {"command": line})


def terminate_command(endpoint: ClientEndpoint, transactional_id: str) -> str:
    """Return the kafka-transactions.sh line that does the same, for a POSIX shell: it begins a producer of
    the same transactional id, which fences the other one.
    """
    words = [*endpoint.tool("kafka-transactions.sh"), "forceTerminateTransaction"]
    return shlex.join([*words, "--transactionalId", transactional_id])


_PLACE: Final = (PathName("transactional_id", Text(min_length=1), "The transactional id."),)
_MISSING: Final = ResponseSpec("No such transactional id", PROBLEM)

ROUTES: Final = (
    Route(
        "GET /api/v1/transactions",
        "listTransactions",
        "Transactional ids with their last transaction. `holding_back` is the number of partitions whose "
        "readers of committed records wait for it; `principal` and `client_id` are empty until the producer "
        "has sent an InitProducerId to this run of the broker.",
        transactions,
        {
            200: ResponseSpec("A page of transactional ids", TRANSACTION_PAGE),
        },
        query=page_query(TRANSACTIONS),
    ),
    Route(
        "GET /api/v1/transactions/{transactional_id}",
        "getTransaction",
        "One transactional id, with the partitions of its open transaction.",
        transaction,
        {200: ResponseSpec("The transactional id", TRANSACTION_DETAIL), 404: _MISSING},
        path_params=_PLACE,
    ),
    Route(
        "POST /api/v1/transactions/{transactional_id}:abort",
        "abortTransaction",
        "Aborts the open transaction and fences its producer, as its timeout would. Refused with 412 if the "
        "producer is not the given one any more. Requires the role admin.",
        abort,
        {
            200: ResponseSpec("The fenced producer, and the command that does the same", ABORTED),
            404: _MISSING,
            409: ResponseSpec("No transaction is open", PROBLEM),
            412: ResponseSpec("Another producer has the transactional id now", PROBLEM),
        },
        query=(Query("validate_only", Flag(), "Only preview; change nothing.", default=False),),
        body=Record(
            {"producer_id": _ID, "producer_epoch": _EPOCH},
            optional=frozenset({"producer_id", "producer_epoch"}),
        ),
        path_params=_PLACE,
        has_slashes=True,
        role=Role.ADMIN,
    ),
)
