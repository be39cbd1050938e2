"""Loading of the class that `client.quota.callback.class` names. Called by the composition root at the start,
before any file or socket is opened.

Every error stops the start with a ConfigError of key, value and a reason in one line.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Final, cast

from broker.errors import ConfigError
from broker.quotas.callback import ClientQuotaCallback

KEY: Final = "client.quota.callback.class"

PARAMETERS: Final = {
    "configure": 1,
    "quota_metric_tags": 3,
    "quota_limit": 2,
    "update_quota": 3,
    "remove_quota": 2,
    "quota_reset_required": 1,
    "update_cluster_metadata": 1,
    "close": 0,
}
"""The required methods and the number of their arguments."""


def load_callback(name: str, configs: Mapping[str, str]) -> ClientQuotaCallback:
    """Return a configured object of the class `package.module:Class` or `package.module.Class`.

    Raises ConfigError.
    """
    kind = _class_of(name)
    try:
        made = kind()
    except Exception as error:
        raise _refused(name, f"cannot create an instance: {_message(error)}") from error
    for method, arguments in PARAMETERS.items():
        _check(name, made, method, arguments)
    callback = cast(ClientQuotaCallback, made)
    try:
        callback.configure(configs)
    except Exception as error:
        raise _refused(name, f"configure() raised {_message(error)}") from error
    return callback


def _class_of(name: str) -> type:
    module_name, colon, path = name.partition(":")
    if not colon:
        module_name, _, path = name.rpartition(".")
    if not all(part.isidentifier() for part in f"{module_name}.{path}".split(".")):
        raise _refused(name, "expected package.module:Class or package.module.Class")
    found: object
    try:
        found = import_module(module_name)
    except Exception as error:
        raise _refused(name, f"cannot import module {module_name}: {_message(error)}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise _refused(name, f"module {module_name} has no {path}")
        found = getattr(found, part)
    if not inspect.isclass(found):
        raise _refused(name, f"{path} is not a class")
    return found


def _check(name: str, made: object, method: str, arguments: int) -> None:
    bound = getattr(made, method, None)
    if not callable(bound):
        raise _refused(name, f"missing method {method}")
    if inspect.iscoroutinefunction(bound):
        raise _refused(name, f"method {method} is async, expected a synchronous method")
    try:
        inspect.signature(bound).bind(*range(arguments))
    except TypeError as error:
        raise _refused(name, f"method {method} must accept {arguments} arguments: {error}") from error
    except ValueError:
        pass  # methods written in C have no signature


def _refused(name: str, reason: str) -> ConfigError:
    return ConfigError(KEY, name, reason)


def _message(error: Exception) -> str:
    """Return the type and message of an exception in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
