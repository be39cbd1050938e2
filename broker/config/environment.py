"""What environment variables say: settings, named as Kafka's container image names them (KIP-975), the first
administrator's token, and the keys that gateways share.

`WEIR_` and a key in upper case, in which `_` stands for a period, `__` for an underscore and `___` for a
hyphen: `WEIR_LOG_DIRS` is `log.dirs`. Other programs' variables begin with `WEIR_` too (Kubernetes adds those
of a service of this name), so one that is no key is ignored, unless it looks like a misspelt one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.common.errors import ConfigError
from broker.config.sections.gateway import GatewayConfig
from broker.config.table import setting_of
from broker.config.unknown_keys import hint

PREFIX: Final = "WEIR_"
TOKEN: Final = "WEIR_ADMIN_TOKEN"  # noqa: S105 - the variable's name
TOKEN_FILE: Final = "WEIR_ADMIN_TOKEN_FILE"  # noqa: S105
CLUSTER_KEYS: Final = "WEIR_CLUSTER_KEYS"
CLUSTER_KEYS_FILE: Final = "WEIR_CLUSTER_KEYS_FILE"
MIN_TOKEN: Final = 16

_UNDERSCORES: Final = re.compile("___|__|_")
_STAND_FOR: Final = {"_": ".", "__": "_", "___": "-"}


def key_of(variable: str) -> str:
    """Return the key for which a variable stands, known or not."""
    return _UNDERSCORES.sub(lambda found: _STAND_FOR[found[0]], variable.removeprefix(PREFIX)).lower()


def settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the variable, the key and the value of each setting, in the order of the variables' names. A
    variable without a text is as if it were not set.
    """
    for variable in sorted(environ):
        value = environ[variable]
        if not (variable.startswith(PREFIX) and value):
            continue
        key = key_of(variable)
        if setting_of(key) is not None or hint(key):
            yield variable, key, value


def with_cluster_keys(config: GatewayConfig, environ: Mapping[str, str]) -> GatewayConfig:
    """Return the section with the keys of the environment, which the file's win over."""
    keys, file = environ.get(CLUSTER_KEYS, ""), environ.get(CLUSTER_KEYS_FILE, "")
    if keys and file:
        raise ConfigError(
            CLUSTER_KEYS_FILE, file, f"set either {CLUSTER_KEYS_FILE} or {CLUSTER_KEYS}, not both"
        )
    if config.cluster_keys or config.cluster_keys_location:
        return config
    return replace(config, cluster_keys=keys, cluster_keys_location=file)


def admin_token(environ: Mapping[str, str]) -> str | None:
    """Return the first administrator's token, if there is one. Raises ConfigError."""
    token, file = environ.get(TOKEN), environ.get(TOKEN_FILE)
    if token and file:
        raise ConfigError(TOKEN_FILE, file, f"set either {TOKEN_FILE} or {TOKEN}, not both")
    if file:
        try:
            token = Path(file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(TOKEN_FILE, file, "a readable file of ASCII text") from error
        if not token:
            raise ConfigError(TOKEN_FILE, file, "the file contains no token")
    if not token:
        return None
    # Clients send it in an Authorization header.
    if not (token.isascii() and token.isprintable()) or " " in token or len(token) > 512:
        raise ConfigError(
            TOKEN_FILE if file else TOKEN, "(hidden)", "at most 512 printable ASCII characters, no spaces"
        )
    return token


def weak_token(token: str | None, environ: Mapping[str, str]) -> str:
    """Return a warning about a short token; empty if there is nothing to say."""
    if token is None or len(token) >= MIN_TOKEN:
        return ""
    source = f"the token in {TOKEN_FILE}" if environ.get(TOKEN_FILE) else TOKEN
    return f"{source} has fewer than {MIN_TOKEN} characters and can be guessed"
