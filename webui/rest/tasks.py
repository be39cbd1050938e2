"""GET /tasks: the broker's task tree."""

from typing import Final

from broker.controller.rows.broker import TaskRow
from webui.rest.paging import list_page, list_query, page_schema
from webui.rest.routing import Call, Reply, ResponseSpec, Route
from webui.tables.answers import as_json, schema_of
from webui.tables.listing import LONGEST_PAGE

TASK: Final = schema_of(TaskRow, "Task")
TASK_PAGE: Final = page_schema(TASK)


async def tasks(call: Call) -> Reply:
    # The tree is listed in its own order, parents first.
    rows = enumerate(call.views.live.tasks())
    return Reply(await list_page(call, rows, lambda row: as_json(row[1]), lambda row: row[0]))


ROUTES: Final = (
    Route(
        "GET /api/v1/tasks",
        "listTasks",
        "The broker's task tree, named after Kafka's threads: resources and idle share of each task.",
        tasks,
        {200: ResponseSpec("A page of tasks, parents first", TASK_PAGE)},
        query=list_query(limit=LONGEST_PAGE),
    ),
)
