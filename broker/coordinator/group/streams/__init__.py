"""Groups of the streams protocol (KIP-1071), without I/O.

The members of a streams group run the same Kafka Streams application. They state its topology; the
coordinator decides the partition counts of the topology's internal topics and which tasks each member runs.
Reading order: `topology` (as members state it), `status`, `configured` (the topology with the topics that
exist), `java_order`, `assignor`, `tasks` and `owners`, `member`, `records` for __consumer_offsets, `group`,
`reconciliation` (a member's next step), `heartbeat`, `coordinator`.
"""
