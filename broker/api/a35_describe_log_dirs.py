"""DescribeLogDirs: which partitions lie in which log directory, and how large they are.

Versions 1-4. A null topic list asks for all. Every directory has an entry, also one that holds nothing: the
Java client takes an answer without any for a refusal.
Left out: the size of the volume and what is free on it (version 4: -1, "not known").
"""

import os

from broker.api.broker import Broker
from broker.api.context import RequestContext
from broker.api.outcome import Answered, Outcome
from broker.api.registry import api
from broker.errors import ErrorCode
from broker.log.partition import PartitionLog
from broker.protocol.api_key import ApiKey
from broker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

Found = dict[str, dict[str, list[DescribeLogDirsPartition]]]


@api(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4))
def handle(message: DescribeLogDirsRequest, _context: RequestContext, broker: Broker) -> Outcome:
    wanted = None
    if message.topics is not None:
        wanted = {(each.topic, index) for each in message.topics for index in each.partitions}
    store = broker.partitions.store
    found: Found = {os.path.abspath(directory): {} for directory in store.config.dirs}
    for log in store:
        if wanted is None or (log.topic, log.index) in wanted:
            directory = os.path.dirname(os.path.abspath(log.directory))
            found[directory].setdefault(log.topic, []).append(_sized(log))
    return Answered(
        DescribeLogDirsResponse(
            results=[
                DescribeLogDirsResult(
                    ErrorCode.NONE,
                    directory,
                    [DescribeLogDirsTopic(name, partitions) for name, partitions in topics.items()],
                )
                for directory, topics in found.items()
            ]
        )
    )


def _sized(log: PartitionLog) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(log.index, log.size, 0, False)
