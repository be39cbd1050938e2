"""Removes expired delegation tokens while the broker runs. (Kafka: QuorumController,
sweepExpiredDelegationTokens)

`broker.server.broker` starts the task if delegation tokens are enabled. A cancellation leaves expired tokens
for the next start; they are of no use meanwhile.
"""

import logging
from typing import Final

import trio

from broker.common.clock import Clock
from broker.common.errors import ApiError
from broker.controller.control import Control
from broker.controller.delegation_tokens import RemoveExpiredDelegationTokens
from broker.metadata.actor import BROKER_ITSELF

logger = logging.getLogger(__name__)

TASK: Final = "delegation-token-expiry"


async def remove_expired_tokens(control: Control, interval_ms: int, clock: Clock) -> None:
    """Remove them every `interval_ms`, until cancelled."""
    while True:
        await trio.sleep(interval_ms / 1_000)
        try:
            removed = await control.apply(RemoveExpiredDelegationTokens(clock.wall_ms()), BROKER_ITSELF)
        except ApiError as error:
            logger.error("cannot remove expired delegation tokens", extra={"reason": error.message})
            continue
        failed = [each for each in removed if not each.ok]
        if failed:
            logger.error("cannot remove expired delegation tokens", extra={"reason": failed[0].message})
        elif removed:
            logger.info("removed expired delegation tokens", extra={"tokens": len(removed)})
