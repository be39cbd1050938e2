"""What the soak's faults make clients and the broker say; every other error is unexplained."""

from typing import Final

from benchmarks.soak.anomalies import Rule

KILL: Final = "kill"
DISK: Final = "disk full"
CLOCK: Final = "clock step"
BUSY: Final = "busy machine"
"""No fault of the soak's making: others have the processors, and the broker waits for one."""

COPIER_WAITS_S: Final = 660.0
"""send_offsets_to_transaction of librdkafka may wait 600 s after a kill; its other errors come then."""

RULES: Final = (
    Rule(
        r"Connection refused|ECONNREFUSED|all attempts to connect|Connection reset|closed the connection"
        r"|EOFError|[Bb]roken ?[Pp]ipe|brokers are down|_TRANSPORT|NodeNotReady|KafkaConnectionError"
        r"|RemoteDisconnected|Remote end closed connection|IncompleteRead|Unable to bootstrap",
        "the broker was away after a kill",
        (KILL,),
    ),
    Rule("the last stop was not clean", "it was a kill", (KILL,)),
    Rule(
        r"No space left|File too large|disk is full|KAFKA_STORAGE_ERROR|error 56|is writable again",
        "the disk was full",
        (DISK,),
    ),
    Rule(
        "OUT_OF_ORDER_SEQUENCE|skipped sequence",
        "the disk was full for one batch of a producer and not for the next",
        (DISK,),
    ),
    Rule("KafkaTimeoutError", "a request waited for longer than the client does", (KILL, DISK)),
    Rule(r"[Tt]imed? ?out|TimedOut", "the broker waited for a processor, which others had", (BUSY,)),
    Rule("channel for which there is no open connection", "a client left before its response was ready"),
    # A decided transaction stays so until its markers are written; the next one waits, the copier for 30 s.
    Rule(
        "CONCURRENT_TRANSACTIONS",
        "the disk was full for the markers of the transaction before",
        (DISK,),
        sources=("copier", "transactions"),
    ),
    # As in Kafka: a coordinator that cannot write is none, and the client looks for another.
    Rule(r"NOT_COORDINATOR|NotCoordinator", "the disk was full for the group's offsets", (DISK,)),
    Rule(
        "_WAIT_COORD",
        "librdkafka looked for the coordinator, which was away or could not write",
        (KILL, DISK),
    ),
    Rule(r"wall clock (moved|jumped)", "retention waits while the clock jumps", (CLOCK,)),
    # The start of a transaction is read from the log after a kill, so a changed clock makes it too old.
    Rule(r"_FENCED|old epoch|InvalidProducerEpoch", "a transaction timed out by the wall clock", (CLOCK,)),
    Rule(
        r"_FENCED|old epoch|code=_TIMED_OUT|_STATE",
        "librdkafka waited after a kill, and its transaction timed out",
        (KILL,),
    ),
    Rule(
        r"_FENCED|old epoch|code=_TIMED_OUT|_STATE|_TRANSPORT|brokers are down",
        "librdkafka waited for ten minutes after a kill, and its transaction timed out",
        (KILL,),
        sources=("copier",),
        settled_s=COPIER_WAITS_S,
    ),
    Rule(
        r"a request of a transactional id was refused",
        "a transaction of a client that waited had timed out",
        (KILL, CLOCK),
        sources=("broker",),
        settled_s=COPIER_WAITS_S,
    ),
    Rule(
        "^CancelledError",
        "aiokafka: stop cancels a fetch that waits for the broker, and raises it (its issue 647)",
        (KILL,),
        sources=("readers-aiokafka",),
    ),
    Rule(
        "close did not return",
        "confluent-kafka: close calls a rebalance callback, whose rd_kafka_assign never returns",
        sources=("readers-librdkafka", "copier"),
    ),
    Rule(
        r"CommitFailed|REBALANCE_IN_PROGRESS|RebalanceInProgress|ILLEGAL_GENERATION|IllegalGeneration"
        r"|UNKNOWN_MEMBER|UnknownMember",
        "members come and go, and a commit meets a rebalance",
    ),
)
