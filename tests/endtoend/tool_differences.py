"""The steps of tool_steps.txt at which Kafka's tools do not say of Weir what they say of Kafka, and why."""

from typing import Final

RANGE: Final = "Weir's message names every value that is allowed"
INTERNALS: Final = "Kafka's message prints the objects of its server"
INDEX: Final = (
    "the index of a small segment is empty, which the tool refuses; Kafka allocates that of the newest "
    "segment in advance, and the tool reads its zeros"
)
OWN_KEYS: Final = "Weir has settings of its own"
INTERNAL_TOPICS: Final = "the topics that the broker writes have other settings"
RECORDS: Final = "Kafka's coordinators write more: an empty group at first, the earlier id of a producer"
UNKNOWN_KEY: Final = "Kafka deletes what no resource can have"
WHY: Final = "Weir's message says what is wrong with the pattern"
LEVELS: Final = "the levels of features are fixed in Weir"
NO_RAFT: Final = "Weir is no quorum, so it has neither a listener of controllers here nor kraft.version"

TOPIC: Final = "kafka-configs --alter --entity-type topics --entity-name orders"
BROKER: Final = "kafka-configs --alter --entity-type brokers --entity-name 1"
GROUP: Final = "kafka-configs --alter --entity-type groups --entity-name protocolled"
METRICS: Final = "kafka-configs --alter --entity-type client-metrics --entity-name queues"
FORMATTED: Final = "--from-beginning --formatter org.apache.kafka.tools.consumer"
OFFSETS: Final = f"kafka-console-consumer --topic __consumer_offsets {FORMATTED}"
TRANSACTIONS: Final = f"kafka-console-consumer --topic __transaction_state {FORMATTED}"
SEGMENT: Final = "kafka-dump-log --files $logs/dumped-0/00000000000000000000"

REASONS: Final[dict[str, tuple[str, ...]]] = {
    RANGE: (
        f"{TOPIC} --add-config retention.ms=soon",
        f"{TOPIC} --add-config retention.ms=-2",
        f"{TOPIC} --add-config compression.type=brotli",
        f"{TOPIC} --add-config compression.gzip.level=10",
        f"{TOPIC} --add-config message.timestamp.type=Never",
        f"{TOPIC} --add-config unclean.leader.election.enable=maybe",
        f"{BROKER} --add-config num.io.threads=0",
        f"{BROKER} --add-config num.io.threads=many",
        f"{GROUP} --add-config share.auto.offset.reset=soon",
        f"{GROUP} --add-config share.record.lock.duration.ms=1",
    ),
    INTERNALS: (
        f"{BROKER} --add-config num.io.threads=99",
        "bob: kafka-acls --list",
        "bob: kafka-acls --add --allow-principal User:bob --operation Read --topic orders",
        "bob: kafka-acls --remove --topic orders --force",
        "bob: kafka-reassign-partitions --list",
        "bob: kafka-features upgrade --feature transaction.version=2",
    ),
    INDEX: (
        f"{SEGMENT}.index --verify-index-only",
        f"{SEGMENT}.index --index-sanity-check",
        f"{SEGMENT}.timeindex --verify-index-only",
    ),
    OWN_KEYS: (
        "kafka-configs --describe --entity-type topics --entity-name orders --all",
        "kafka-configs --describe --entity-type brokers --entity-name 1 --all",
    ),
    INTERNAL_TOPICS: (
        "kafka-configs --describe --entity-type topics",
        "kafka-topics --describe --topic __consumer_offsets",
        "kafka-topics --describe --topic __transaction_state",
    ),
    RECORDS: (
        f"{OFFSETS}.GroupMetadataMessageFormatter --group internals-too --timeout-ms 4000",
        f"{TRANSACTIONS}.TransactionLogMessageFormatter --group internals --timeout-ms 4000",
    ),
    UNKNOWN_KEY: (f"{TOPIC} --delete-config no.such.key",),
    WHY: (
        f"{METRICS} --add-config match=[colour=red]",
        f"{METRICS} --add-config match=[client_id=(]",
    ),
    LEVELS: ("kafka-features downgrade --dry-run --feature share.version=1",),
    NO_RAFT: (
        "kafka-metadata-quorum describe --status",
        "kafka-features describe",
        "bob: kafka-features describe",
        "kafka-features upgrade --release-version 4.4",
    ),
    "the loggers are those of Weir's modules": (
        "kafka-configs --describe --entity-type broker-loggers --entity-name 1",
    ),
    "Kafka serves client metrics only with a plug-in that receives them": ("kafka-broker-api-versions",),
    "Kafka stores the start offset of a share group with its next change": (
        "kafka-share-groups --describe --group sharing",
        "kafka-share-groups --describe --group sharing --verbose",
    ),
}
OTHER_STATUS: Final = frozenset(
    {
        f"{SEGMENT}.index --verify-index-only",
        f"{SEGMENT}.timeindex --verify-index-only",
        f"{TOPIC} --delete-config no.such.key",
        "kafka-features downgrade --dry-run --feature share.version=1",
        "kafka-features upgrade --release-version 4.4",
    }
)
"""Those at which the tool's exit status is another one, too."""

DIFFERENT: Final = {step: reason for reason, steps in REASONS.items() for step in steps}
