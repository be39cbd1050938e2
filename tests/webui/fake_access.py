"""Who may log in to the fake broker, by broker.controller's rules. Part of tests.webui.fakes."""

import threading
from dataclasses import dataclass

from msgspec.structs import replace

from broker.common.errors import ApiError, ErrorCode
from broker.controller.commands import (
    Actor,
    EntryOutcome,
    IssueAdminToken,
    IssuedToken,
    RevokeAdminToken,
    Role,
)
from broker.controller.rows.broker import TokenRow
from broker.controller.tokens import SetPassword
from broker.security.console_links import ConsoleLinks
from broker.security.passwords import Cost, StoredPassword
from tests.webui.rows import NOW_MS

ADMIN = TokenRow("root", "admin", NOW_MS, "broker", 11)
EDITOR = TokenRow("ed", "editor", NOW_MS, "root", 12)
VIEWER = TokenRow("vi", "viewer", NOW_MS, "root", 13)
SECRETS = {"admin-token": ADMIN, "editor-token": EDITOR, "viewer-token": VIEWER}


@dataclass
class FakeCredentials:
    row: TokenRow | None
    secrets: tuple[str | None, ...]
    hashing: list[str]

    def accepts(self, secret: str) -> bool:
        self.hashing.append(threading.current_thread().name)
        return secret in self.secrets


class FakeAccess:
    """`secrets` are the tokens by their secrets, `passwords` those by name; `hashing` are the threads in
    which something slow was done; `links` log in by the first token.
    """

    secrets: dict[str, TokenRow]
    passwords: dict[str, str]
    hashing: list[str]
    links: ConsoleLinks
    token_rows: list[TokenRow]
    version: int
    now_ms: int

    def while_hashing(self) -> None:
        """For a test to put something else in its place."""

    def identify(self, secret: str) -> TokenRow | None:
        token = self.secrets.get(secret)
        return token if token in self.token_rows else None

    def redeem(self, code: str, now_ms: int) -> TokenRow | None:
        return self.token_rows[0] if self.links.redeem(code, now_ms) else None

    def tokens(self) -> list[TokenRow]:
        return list(self.token_rows)

    def credentials_of(self, name: str) -> FakeCredentials:
        row = next((each for each in self.token_rows if each.name == name), None)
        tokens = tuple(secret for secret, each in self.secrets.items() if each.name == name)
        return FakeCredentials(
            row, (*tokens, None if row is None else self.passwords.get(name)), self.hashing
        )

    def hash_password(self, password: str, name: str) -> StoredPassword:
        self.hashing.append(threading.current_thread().name)
        self.while_hashing()
        if len(password) < 12:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid password: expected 12 to 256 characters")
        return StoredPassword(password.encode(), Cost(1, 1, 1), b"")

    def _set_password(self, command: SetPassword, actor: Actor) -> EntryOutcome:
        if actor.role < Role.ADMIN and not (command.name == actor.name and command.proven):
            return EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        row = next((each for each in self.token_rows if each.name == command.name), None)
        if row is None:
            return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no token of this name")
        try:
            self._check_token(command.name, command.expected_version)
        except ApiError as error:
            return EntryOutcome(error.code, error.message)
        if not command.validate_only:
            self.version += 1
            self.passwords.pop(command.name, None)
            if command.password is not None:
                self.passwords[command.name] = command.password.salt.decode()
            at_ms = None if command.password is None else self.now_ms
            changed = replace(row, version=self.version, password_at_ms=at_ms)
            self.token_rows[self.token_rows.index(row)] = changed
            self.secrets = {key: changed if each == row else each for key, each in self.secrets.items()}
        return EntryOutcome()

    def _issue(self, command: IssueAdminToken, actor: Actor) -> IssuedToken:
        if actor.role < Role.ADMIN:
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        others = [each for each in self.token_rows if each.name != command.name]
        self._check_token(command.name, command.expected_version)
        stays = command.role is Role.ADMIN and command.expires_at_ms is None
        if not stays and not _stay(others):
            raise ApiError(ErrorCode.POLICY_VIOLATION, "This is the last administrator's token that stays")
        self.version += 1
        role, expires = command.role.name.lower(), command.expires_at_ms
        row = TokenRow(command.name, role, self.now_ms, actor.name, self.version, expires)
        self.token_rows = [*others, row]
        secret = f"secret-of-{command.name}-{self.version}"
        self.secrets = {known: each for known, each in self.secrets.items() if each.name != row.name}
        self.secrets[secret] = row
        return IssuedToken(command.name, command.role, secret)

    def _check_token(self, name: str, expected: int | None) -> None:
        version = next((row.version for row in self.token_rows if row.name == name), 0)
        if expected is not None and expected != version:
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "The token was changed since it was read.")

    def _revoke(self, command: RevokeAdminToken, actor: Actor) -> EntryOutcome:
        if actor.role < Role.ADMIN:
            return EntryOutcome(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "This needs the role admin.")
        kept = [row for row in self.token_rows if row.name != command.name]
        if len(kept) == len(self.token_rows):
            return EntryOutcome(ErrorCode.RESOURCE_NOT_FOUND, "There is no token of this name")
        try:
            self._check_token(command.name, command.expected_version)
        except ApiError as error:
            return EntryOutcome(error.code, error.message)
        if not _stay(kept):
            return EntryOutcome(
                ErrorCode.POLICY_VIOLATION, "The last administrator's token cannot be revoked"
            )
        self.token_rows = kept
        self.version += 1
        return EntryOutcome()


def _stay(rows: list[TokenRow]) -> bool:
    return any(row.role == "admin" and row.expires_at_ms is None for row in rows)
