"""Changes of the upstream cluster's ACLs and SCRAM users for an operator. Run by `Control` as operations."""

from typing import Any, Final

from broker.common.errors import ApiError, ErrorCode
from broker.controller.acls import check_acl
from broker.controller.commands import (
    AclDeletion,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    EntryOutcome,
    ScramDeletion,
    ScramUpsertion,
    UserOutcome,
)
from broker.controller.control import Control
from broker.controller.plan import Done, Situation
from broker.controller.scram import check_iterations
from broker.gateway.contents.access import read_acls, read_scram_users
from broker.gateway.contents.asking import Asking, unavailable
from broker.gateway.contents.readings import UpstreamReadings
from broker.gateway.contents.refusals import Notes, error_of
from broker.gateway.upstream.errors import UpstreamError
from broker.metadata.actor import Role
from broker.metadata.changes import Change, ChangeKind
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from broker.protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from broker.security.acl.acl import Acl, AclFilter
from broker.security.scram import BY_CODE
from broker.views.readings import Part

NO_RESULT: Final = "The upstream cluster's response has no result."


class AccessChanges:
    """The operations. With `scram`, also those of SCRAM users: the gateway has none of its own then."""

    def __init__(self, asking: Asking, readings: UpstreamReadings, *, scram: bool) -> None:
        self._asking = asking
        self._readings = readings
        self._scram = scram

    def register(self, control: Control) -> None:
        control.add_operation(CreateAcls, self.create)
        control.add_operation(DeleteAcls, self.delete)
        if self._scram:
            control.add_operation(AlterUserScramCredentials, self.alter_users)

    async def create(self, command: CreateAcls, at: Situation) -> Done[list[EntryOutcome]]:
        refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        outcomes, notes = [], []
        for acl in command.acls:
            outcome = refusal or EntryOutcome()
            if outcome.ok:
                try:
                    check_acl(acl)
                    if not command.validate_only:
                        await self._create(acl)
                        notes.append(Change(ChangeKind.UPSTREAM, f"ACL {acl}", "created", "by an operator"))
                except ApiError as error:
                    outcome = EntryOutcome(error.code, error.message)
            outcomes.append(outcome)
        return self._done(outcomes, notes, Part.ACLS)

    async def _create(self, acl: Acl) -> None:
        creation = AclCreation(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission,
        )
        response = await self._asking.change_at_controller(CreateAclsRequest([creation]))
        _check(ApiKey.CREATE_ACLS, response.results)

    async def delete(self, command: DeleteAcls, at: Situation) -> Done[list[AclDeletion]]:
        refusal = at.refusal(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        outcomes, notes = [], []
        for wanted in command.filters:
            if refusal is not None:
                outcomes.append(AclDeletion(refusal.error, refusal.message))
                continue
            try:
                if command.validate_only:
                    outcomes.append(AclDeletion(deleted=await self._matched(wanted)))
                    continue
                outcome = await self._delete(wanted)
            except ApiError as error:
                outcome = AclDeletion(error.code, error.message)
            outcomes.append(outcome)
            notes += [
                Change(ChangeKind.UPSTREAM, f"ACL {acl}", "deleted", "by an operator")
                for acl in outcome.deleted
            ]
        return self._done(outcomes, notes, Part.ACLS)

    async def _matched(self, wanted: AclFilter) -> tuple[Acl, ...]:
        try:
            return tuple(filter(wanted.matches, await read_acls(self._asking, Notes())))
        except UpstreamError as error:
            raise unavailable(error) from error

    async def _delete(self, wanted: AclFilter) -> AclDeletion:
        """Return what was deleted, with the first error of an ACL that was not. Raises ApiError."""
        response = await self._asking.change_at_controller(DeleteAclsRequest([DeleteAclsFilter(*wanted)]))
        result = _check(ApiKey.DELETE_ACLS, response.filter_results)
        deleted = tuple(
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in result.matching_acls
            if not each.error_code
        )
        failed = next((each for each in result.matching_acls if each.error_code), None)
        if failed is None:
            return AclDeletion(deleted=deleted)
        error = error_of(ApiKey.DELETE_ACLS, failed.error_code, failed.resource_name, failed.error_message)
        return AclDeletion(error.code, error.message, deleted)

    async def alter_users(self, command: AlterUserScramCredentials, at: Situation) -> Done[list[UserOutcome]]:
        """Run AlterUserScramCredentials. A password is salted before it comes here."""
        outcomes, notes = [], []
        for each in command.alterations:
            try:
                at.require(Role.ADMIN, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                note = await self._alter(each, validate_only=command.validate_only)
            except ApiError as error:
                outcomes.append(UserOutcome(error.code, error.message, each.user))
                continue
            outcomes.append(UserOutcome(user=each.user))
            if not command.validate_only:
                notes.append(note)
        return self._done(outcomes, notes, Part.SCRAM_USERS)

    async def _alter(self, alteration: ScramUpsertion | ScramDeletion, *, validate_only: bool) -> Change:
        mechanism = BY_CODE.get(alteration.mechanism)
        if mechanism is None:
            raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        await self._check_version(alteration, mechanism.name)
        place, user = alteration.mechanism, alteration.user
        if isinstance(alteration, ScramUpsertion):
            check_iterations(alteration.iterations)
            key, text = "set", f"{mechanism.name}, {alteration.iterations} iterations"
            upsertion = ScramCredentialUpsertion(
                user, place, alteration.iterations, alteration.salt, alteration.salted_password
            )
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        else:
            key, text = "deleted", mechanism.name
            request = AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, place)])
        if not validate_only:
            response = await self._asking.change_at_controller(request)
            _check(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, response.results, user)
        return Change(ChangeKind.UPSTREAM, f"SCRAM user {user}", key, text)

    async def _check_version(self, alteration: ScramUpsertion | ScramDeletion, mechanism: str) -> None:
        if alteration.expected_version is None:
            return
        try:
            known = (await read_scram_users(self._asking, Notes())).get((alteration.user, mechanism))
        except UpstreamError as error:
            raise unavailable(error) from error
        if alteration.expected_version != (0 if known is None else known.version):
            text = f"The credential of {alteration.user} was changed in the meantime."
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, text)

    def _done(self, outcomes: list[Any], notes: list[Change], part: Part) -> Done[Any]:
        if notes:
            self._readings.outdate(part)
        return Done(outcomes, tuple(notes))


def _check(key: int, results: list[Any], name: str = "") -> Any:
    """Return the only result of a change. Raises ApiError if the cluster has refused it."""
    if not results:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, NO_RESULT)
    result = results[0]
    if result.error_code:
        raise error_of(key, result.error_code, name, result.error_message)
    return result
