"""Every operation of the OpenAPI document, asked with what its schemas allow and what they do not: never a
bug, and never an answer that the document does not describe.

Over a real socket, for schemathesis asks like any program. Bounded: some requests for each operation.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.webui.fakes import console_config
from tests.webui.insights.full import fill
from tests.webui.log_world import LoggedBroker, LogWorld
from tests.webui.served import ServedConsole
from tests.webui.simulation import Simulation
from webui.rest.routes import ROUTES
from webui.rest.routing import Route

schemathesis: Any = pytest.importorskip("schemathesis", reason="pip install schemathesis")

EXAMPLES = 5
GENERATION = {
    "allowed": schemathesis.GenerationMode.POSITIVE,
    "not allowed": schemathesis.GenerationMode.NEGATIVE,
}
ASKED = [route for route in ROUTES if route.operation != "streamEvents"]
"""A stream has no end."""

BY_THE_WEB_SERVER = (431, 501)
"""Answered before anything of ours looks at it: too long, or with a Transfer-Encoding that is not known."""

BODY_TOO_LONG = 413
"""Answered before the body is looked at."""

NOT_ASKED = [schemathesis.checks.positive_data_acceptance]
"""Kafka's rules say more than a schema can: a fraction of a byte, an address together with a user."""

TOKEN = {"Authorization": "Bearer admin-token"}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedConsole]:
    world = LogWorld(tmp_path_factory.mktemp("logs"))
    broker = LoggedBroker(world)
    Simulation(broker).step(250)
    warehouse = tmp_path_factory.mktemp("warehouse")
    fill(warehouse)
    with ServedConsole(broker, console_config(insights_warehouse=str(warehouse))) as served:
        yield served
    world.close()


@pytest.fixture(scope="module")
def described(console: ServedConsole) -> Any:
    return schemathesis.openapi.from_url(f"{console.address}/api/v1/openapi.json", headers=TOKEN)


@pytest.mark.rotates
@pytest.mark.parametrize("mode", list(GENERATION), ids=lambda mode: mode)
@pytest.mark.parametrize("route", ASKED, ids=lambda route: route.operation)
def test_every_answer_is_one_that_the_document_describes(described: Any, route: Route, mode: str) -> None:
    if mode == "not allowed" and not (route.query or route.path_params or route.body):
        return
    operation = described[route.path][route.method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=GENERATION[mode]))
    def ask(case: Any) -> None:
        answer = case.call(headers=TOKEN, timeout=20)
        if answer.status_code not in BY_THE_WEB_SERVER:
            unread = [schemathesis.checks.negative_data_rejection] * (answer.status_code == BODY_TOO_LONG)
            case.validate_response(answer, excluded_checks=[*NOT_ASKED, *unread])

    ask()
