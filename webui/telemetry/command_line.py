"""The kafka-client-metrics.sh command that does the same as an edit of a subscription.

Only builds text; nothing is ever run. That tool takes lists as they are, where kafka-configs.sh would read
the brackets of a regular expression as its own.
"""

import shlex
from collections.abc import Mapping
from typing import Final

OPTIONS: Final = {"metrics": "--metrics", "interval.ms": "--interval", "match": "--match"}


def kafka_client_metrics(bootstrap: str, name: str, wanted: Mapping[str, str]) -> str:
    """One line for a POSIX shell. `wanted` is all that is set afterwards; what is not is reset by an empty
    value.
    """
    words = ["kafka-client-metrics.sh", "--bootstrap-server", bootstrap]
    if not wanted:
        return shlex.join([*words, "--delete", "--name", name])
    words += ["--alter", "--name", name]
    for key, option in OPTIONS.items():
        words += [option, wanted.get(key, "")]
    return shlex.join(words)
