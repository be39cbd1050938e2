"""Says what another Kafka changes against the one that Weir follows: `make upstream`, once a week.

python -m tests.upstream                 # the newest one against the version of broker/common/version.py
python -m tests.upstream 4.3.0           # that one
python -m tests.upstream 4.1.1 4.3.0     # the second against the first
"""

import sys

from broker.common.version import KAFKA_VERSION
from tests.upstream.compare import report
from tests.upstream.jars import read_version


def main(arguments: list[str]) -> None:
    newest = f"[{KAFKA_VERSION},)"
    match arguments:
        case []:
            old, new = KAFKA_VERSION, newest
        case [version]:
            old, new = KAFKA_VERSION, version
        case [old, new]:
            pass
        case _:
            sys.exit("At most two versions.")
    sys.stdout.writelines(f"{line}\n" for line in report(read_version(old), read_version(new)))


if __name__ == "__main__":
    main(sys.argv[1:])
