"""ACLs of the fake broker, by the broker's own planners and authorizer. Part of tests.webui.fakes."""

from broker.controller.acls import plan_create_acls, plan_delete_acls
from broker.controller.commands import AclDeletion, Actor, CreateAcls, DeleteAcls, EntryOutcome
from broker.security.acl.acl import Acl
from broker.security.acl.authorizer import Authorizer
from broker.views.acls import AclViews
from tests.controller.world import World


class FakeAcls:
    """`metadata` has the image with them, and the setting of the authorizer."""

    metadata: World
    version: int
    super_users: tuple[str, ...]
    everyone_if_no_acl: bool

    def _alter_acls(
        self, command: CreateAcls | DeleteAcls, actor: Actor
    ) -> list[EntryOutcome] | list[AclDeletion]:
        self.version += not command.validate_only
        if isinstance(command, CreateAcls):
            return self.metadata.do(plan_create_acls, command, actor.role)
        return self.metadata.do(plan_delete_acls, command, actor.role)

    def add_acl(self, *acls: Acl) -> None:
        outcomes = self.metadata.do(plan_create_acls, CreateAcls(acls))
        assert all(outcome.ok for outcome in outcomes)
        self.version += 1

    @property
    def acls(self) -> AclViews:
        return AclViews(lambda: self.metadata.image, self._authorizer())

    def _authorizer(self) -> Authorizer | None:
        if not self.metadata.configuration.config.security.authorizer_class_name:
            return None
        acls = self.metadata.image.acls
        return Authorizer(acls, self.super_users, is_open=self.everyone_if_no_acl)
