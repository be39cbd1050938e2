"""A gateway with a console in front of one broker, and its REST API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

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
