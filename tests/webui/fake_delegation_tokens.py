"""Delegation tokens of the fake broker, by broker.controller's planners. Part of tests.webui.fakes."""

from typing import Final

from msgspec.structs import replace

from broker.common.slices import run_through
from broker.controller.delegation_tokens import (
    CreateDelegationToken,
    DelegationTokenOutcome,
    ExpireDelegationToken,
    RenewDelegationToken,
    plan_create_token,
    plan_expire_token,
    plan_renew_token,
)
from broker.metadata.actor import Actor, ChangeOrigin, Role
from broker.views.metadata import DelegationTokenViews
from tests.controller.world import World

TOKENS_ENABLED: Final = "delegation.token.secret.key=a key"


class FakeDelegationTokens:
    """`metadata` has the image with them, and the setting of their key."""

    metadata: World
    version: int
    now_ms: int

    def add_delegation_token(
        self, owner: str = "User:ann", *renewers: str, requester: str = "", max_lifetime_ms: int = -1
    ) -> str:
        """Return the id of a new token."""
        who = Actor(requester or owner, Role.ADMIN, "10.0.0.1", ChangeOrigin.WIRE)
        at = replace(self.metadata.at(), actor=who)
        plan = run_through(
            plan_create_token(CreateDelegationToken(owner, renewers, max_lifetime_ms, self.now_ms), at)
        )
        assert plan.result.ok
        self.metadata.write(plan.changes)
        self.version += 1
        return plan.result.token_id

    def renew_delegation_token(self, token_id: str, period_ms: int) -> None:
        outcome = self.metadata.do(plan_renew_token, RenewDelegationToken(token_id, period_ms, self.now_ms))
        assert outcome.ok
        self.version += 1

    def _expire_token(self, command: ExpireDelegationToken, actor: Actor) -> DelegationTokenOutcome:
        self.version += 1
        return self.metadata.do(plan_expire_token, command, actor.role)

    @property
    def delegation_tokens(self) -> DelegationTokenViews:
        security = self.metadata.configuration.config.security
        return DelegationTokenViews(
            lambda: self.metadata.image, lambda: bool(security.delegation_token_secret_key)
        )
