"""Changing a running broker's settings over the wire, as kafka-configs does, and what tests of that share."""

from collections.abc import Callable
from typing import TypeVar

import trio

from broker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.running import RunningBroker
from tests.support.wire import WireClient

BROKER = 4
SET, DELETE = 0, 1
BROKER_ONE, ALL_BROKERS = "1", ""

Test = TypeVar("Test", bound=Callable[..., object])


def takes_effect(*keys: str) -> Callable[[Test], Test]:
    """Name the dynamic settings that a test shows to take effect without a restart.

    A convention test requires one for every dynamic key.
    """
    assert keys

    def mark(test: Test) -> Test:
        return test

    return mark


async def alter_through(
    client: WireClient, settings: dict[str, str | None], resource: str = BROKER_ONE, *, validate: bool = False
) -> tuple[int, str | None]:
    """(error code, message); a value of None deletes."""
    configs = [AlterableConfig(key, DELETE if text is None else SET, text) for key, text in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, resource, configs)], validate)
    answer = (await client.ask(request, 1)).responses[0]
    return answer.error_code, answer.error_message


async def alter(broker: RunningBroker, resource: str = BROKER_ONE, **settings: str | None) -> None:
    """Changes settings, written with underscores, over a connection of its own; they must be taken."""
    client = await broker.connect("operator")
    keys = {key.replace("_", "."): text for key, text in settings.items()}
    assert await alter_through(client, keys, resource) == (0, None)
    await client.stream.aclose()


def task_names(beginning: str) -> list[str]:
    """The names of the running tasks that begin so, in order."""
    root = trio.lowlevel.current_root_task()
    assert root is not None
    found, ahead = [], [root]
    while ahead:
        task = ahead.pop()
        found.append(task.name)
        ahead.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
    return sorted(name for name in found if name.startswith(beginning))
