"""Groups of the consumer protocol (KIP-848), without I/O.

The coordinator computes the target assignment of a group, and each member reaches it with its heartbeats: it
first revokes what it has to, then receives what the others have released. `coordinator` is the interface.
Reading order: `assignment`, `member`, `owners`, `group`, `reconciliation` (from the current assignment to the
target), `assignors` with `uniform` (the target), `epochs` (the new epoch after a change of a member),
`heartbeat`; `classic_members` and `migration` for members of the classic protocol in such a group; `records`
and `persistence` for __consumer_offsets.
"""
