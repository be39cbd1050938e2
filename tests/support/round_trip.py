"""Writes to every partition of a new topic with a real client, and reads all of it, as a process of its own.

Run by tests/endtoend/gateway/test_sni.py under another /etc/hosts:

    python -m tests.support.round_trip CLIENT BOOTSTRAP PROTOCOL AUTHORITY TOPIC PARTITIONS
"""

import sys

from tests.support.real_clients import CLIENTS, Target, create


def main() -> None:
    name, bootstrap, protocol, authority, topic, partitions = sys.argv[1:]
    (client,) = (each for each in CLIENTS if each.name == name)
    target = Target(bootstrap, protocol, authority=authority)
    create(target, topic, int(partitions))
    values = [b"%d" % number for number in range(100)]
    for partition in range(int(partitions)):
        assert client.produce(target, topic, values, partition=partition) == list(range(100))
    read = client.read(target, topic, 100 * int(partitions), partitions=int(partitions))
    assert sorted(read) == sorted(values * int(partitions)), f"{len(read)} records came back"


if __name__ == "__main__":
    main()
