"""A gateway with a console in front of one broker, and its REST API."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import trio

from broker.controller.commands import CreateTopics, NewTopic
from broker.metadata.actor import BROKER_ITSELF
from tests.support.machine_speed import WITHIN_S
from tests.support.produce import PRODUCE_VERSION, batch_of, produce_request
from tests.support.running import RunningBroker, running_broker
from tests.support.running_gateway import RunningGateway, running_gateway

CONSOLE = "console.listener=127.0.0.1:0"


@dataclass
class World:
    """`http` asks as the administrator."""

    broker: RunningBroker
    gateway: RunningGateway
    http: httpx.AsyncClient

    async def get(self, path: str, status: int = 200) -> Any:
        return await self.ask("GET", path, status)

    async def ask(self, method: str, path: str, status: int = 200, body: Any = None, **headers: str) -> Any:
        """Return the JSON of an answer, which must have this status."""
        answer = await self.http.request(
            method, f"/api/v1/{path}", json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def until(self, path: str, fits: Callable[[Any], object]) -> Any:
        """Ask until the answer fits."""
        with trio.fail_after(WITHIN_S):
            while not fits(answer := await self.get(path)):  # noqa: ASYNC110 - nothing announces it
                await trio.sleep(0.05)
        return answer

    async def create(self, *topics: NewTopic) -> None:
        """Create topics at the broker."""
        for outcome in await self.broker.server.control.apply(CreateTopics(topics), BROKER_ITSELF):
            assert outcome.ok, outcome

    async def produce(self, topic: str, partition: int, *values: bytes) -> None:
        client = await self.broker.connect()
        reply = await client.ask(produce_request(batch_of(*values), topic, partition), PRODUCE_VERSION)
        assert reply.responses[0].partition_responses[0].error_code == 0


@asynccontextmanager
async def rest_of(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    console = gateway.started.console
    assert console is not None
    headers = {"Authorization": f"Bearer {console.token}"}
    async with httpx.AsyncClient(base_url=console.address, headers=headers, timeout=30) as client:
        yield client


@asynccontextmanager
async def world(directory: Path, *overrides: str, of_broker: tuple[str, ...] = ()) -> AsyncIterator[World]:
    async with (
        running_broker(directory / "broker", *of_broker) as broker,
        running_gateway(directory / "gateway", broker.port, CONSOLE, *overrides) as gateway,
        rest_of(gateway) as http,
    ):
        yield World(broker, gateway, http)
