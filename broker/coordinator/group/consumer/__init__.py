"""Groups of the consumer protocol (KIP-848), without I/O.

The coordinator computes the target assignment of a group, and each member reaches it with its heartbeats: it
first revokes what it has to, then receives what the others have released. `coordinator` is the interface.
Reading order: `assignment`, `member`, `records` for __consumer_offsets, `group`, `assignors` (the target
assignment), `epochs` (what a change of a member brings about, and its steps to the target), `heartbeat`;
`classic_members` and `migration` for members of the classic protocol in such a group.
"""
