"""The key that encrypts secret settings in the metadata log, and its files.

Used by MetadataStore. (Kafka, with ZooKeeper: PasswordEncoder, password.encoder.secret and
password.encoder.old.secret.) A file contains 32 random bytes in base64 on one line; keys are not derived from
passwords, so guessing a password is impossible. Values are encrypted with AES-256-GCM under a random nonce of
96 bits. The place of a value in the log is authenticated too, so that a value cannot be moved to another
setting.

The key protects copies of the metadata file without the key file. With both files, the settings are readable.
"""

import base64
import binascii
import hmac
import logging
import os
import secrets
import stat
from pathlib import Path
from typing import Any, Final

from broker.common.errors import ConfigError

logger = logging.getLogger(__name__)

KEY_NAME: Final = "config.secret.key.file"
OLD_KEY_NAME: Final = "config.secret.old.key.file"
DEFAULT_FILE: Final = "weir-secret.key"
"""In the directory of the metadata file; created at the first start."""

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MAX_BYTES: Final = 1_024
_PREFIX: Final = "weir1:"
_HOW_TO_MAKE: Final = "(umask 077; openssl rand -base64 32 > {0})"


class SecretKey:
    """`id` identifies the key without revealing it. AES is loaded with the first value."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._aes: Any = None
        self.id = hmac.digest(key, b"weir key id", "sha256")[:8].hex()

    def seal(self, text: str, place: str) -> str:
        """Encrypt `text` to `weir1:<key id>:<base64 of nonce, ciphertext and tag>`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher().encrypt(nonce, text.encode(), place.encode())
        return f"{_PREFIX}{self.id}:{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, place: str) -> str:
        """Decrypt. Raises ValueError unless `seal` produced `sealed` with this key for this place."""
        from cryptography.exceptions import InvalidTag

        content = base64.b64decode(sealed[len(f"{_PREFIX}{self.id}:") :], validate=True)
        try:
            opened: bytes = self._cipher().decrypt(
                content[:_NONCE_BYTES], content[_NONCE_BYTES:], place.encode()
            )
        except InvalidTag as error:
            raise ValueError("an encrypted value was modified") from error
        return opened.decode()

    def _cipher(self) -> Any:
        if self._aes is None:
            # Imported here, because most brokers have no secret settings and must not wait for it.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._aes = AESGCM(self._key)
        return self._aes


def key_id_of(text: str) -> str | None:
    """Return the id of the key that encrypted `text`; None if it is not encrypted."""
    key_id, separator, _ = text[len(_PREFIX) :].partition(":")
    return key_id if text.startswith(_PREFIX) and separator and len(key_id) == 16 else None


class KeyFiles:
    """The paths of the key files. `configured`: an operator named the file, so the broker never creates it: a
    wrong path or an unmounted volume must not look like a first start.
    """

    def __init__(self, default: Path, configured: str = "", old: str = "") -> None:
        self.configured = bool(configured)
        self.path = Path(configured) if configured else default
        self.old_path = Path(old) if old else None

    def current(self, *, make: bool) -> SecretKey | None:
        """Return the key of new values; None: the file is missing.

        `make`: nothing is encrypted yet, so the default file can be created, readable by its owner only.
        Raises ConfigError for an unusable file, OSError.
        """
        key = _read(KEY_NAME, self.path)
        if key is not None or not make:
            return key
        if self.configured:
            raise ConfigError(
                KEY_NAME, str(self.path), f"a file with a key, made by {_HOW_TO_MAKE.format(self.path)}"
            )
        fresh = secrets.token_bytes(_KEY_BYTES)
        _write(self.path, fresh)
        logger.info("created a key for secret settings", extra={"file": str(self.path)})
        return SecretKey(fresh)

    def old(self) -> SecretKey | None:
        """Return the previous key; None: not configured. Raises ConfigError for an unusable file."""
        if self.old_path is None:
            return None
        key = _read(OLD_KEY_NAME, self.old_path)
        if key is None:
            raise ConfigError(OLD_KEY_NAME, str(self.old_path), "the file with the previous key")
        return key


def _write(path: Path, key: bytes) -> None:
    """Write the whole key or nothing. Raises OSError."""
    fresh = path.with_name(path.name + ".tmp")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(base64.b64encode(key) + b"\n")
        file.flush()
        os.fsync(descriptor)
    os.replace(fresh, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(name: str, path: Path) -> SecretKey | None:
    """Return the key; None: there is no such file. Never blocks on a FIFO. Raises ConfigError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(name, str(path), f"a readable file ({reason})") from error
    try:
        _check(name, path, os.fstat(descriptor))
        content = os.read(descriptor, _MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        key = base64.b64decode(content.strip(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError(
            name, str(path), f"a file with {_KEY_BYTES} bytes in base64, by {_HOW_TO_MAKE.format(path)}"
        )
    return SecretKey(key)


def _check(name: str, path: Path, seen: os.stat_result) -> None:
    """Check the file's owner and mode: only the broker's user can read a key, or its group if root owns the
    file (as PostgreSQL requires for a server's key). Raises ConfigError.
    """
    if not stat.S_ISREG(seen.st_mode):
        raise ConfigError(name, str(path), "a regular file")
    user = os.geteuid()
    if seen.st_uid not in (user, 0):
        raise ConfigError(
            name, str(path), f"a file owned by the broker's user ({user}) or by root, not by {seen.st_uid}"
        )
    allowed = 0o600 if seen.st_uid == user else 0o640
    mode = stat.S_IMODE(seen.st_mode)
    if mode & ~allowed & 0o077:
        raise ConfigError(
            name,
            str(path),
            f"a file with mode {allowed:04o} at most, not {mode:04o}: chmod {allowed:04o} {path}",
        )
