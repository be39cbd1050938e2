"""The kafka-client-metrics.sh command equivalent to an edit of a subscription.

Only builds text and runs nothing. That tool takes lists verbatim, whereas kafka-configs.sh would interpret
the brackets of a regular expression.
"""

import shlex
from collections.abc import Mapping
from typing import Final

OPTIONS: Final = {"metrics": "--metrics", "interval.ms": "--interval", "match": "--match"}


def kafka_client_metrics(bootstrap: str, name: str, wanted: Mapping[str, str]) -> str:
    """Return one line for a POSIX shell. `wanted` has all settings after the edit; an empty value resets the
    others.
    """
    words = ["kafka-client-metrics.sh", "--bootstrap-server", bootstrap]
    if not wanted:
        return shlex.join([*words, "--delete", "--name", name])
    words += ["--alter", "--name", name]
    for key, option in OPTIONS.items():
        words += [option, wanted.get(key, "")]
    return shlex.join(words)
