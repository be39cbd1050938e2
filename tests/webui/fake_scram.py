"""Users' SCRAM credentials of the fake broker, by broker.controller's planner. Part of tests.webui.fakes."""

from collections.abc import Iterator

from broker.controller.commands import Actor, AlterUserScramCredentials, UserOutcome
from broker.controller.rows.broker import ScramRow
from broker.controller.scram import plan_scram, upsertion_of
from tests.controller.world import World


class FakeScram:
    """`metadata` has the image with them."""

    metadata: World
    version: int

    def _alter_scram(self, command: AlterUserScramCredentials, actor: Actor) -> list[UserOutcome]:
        self.version += not command.validate_only
        return self.metadata.do(plan_scram, command, actor.role)

    def add_scram(self, user: str, mechanism: str = "SCRAM-SHA-256", password: str = "secret") -> None:
        upsertion = upsertion_of(user, mechanism, password, 4_096, None)
        (outcome,) = self.metadata.do(plan_scram, AlterUserScramCredentials((upsertion,)))
        assert outcome.ok
        self.version += 1

    def scram_users(self) -> Iterator[ScramRow]:
        for user, known in sorted(self.metadata.image.scram.items()):
            for mechanism, (*_, iterations, _, _, version, at_ms, by) in known.items():
                yield ScramRow(user, mechanism, iterations, version, at_ms, by)

    def scram_user(self, user: str, mechanism: str) -> ScramRow | None:
        rows = (row for row in self.scram_users() if (row.user, row.mechanism) == (user, mechanism))
        return next(rows, None)
