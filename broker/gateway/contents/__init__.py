"""What the upstream cluster contains, as the console and REST of a gateway show and change it.

refusals    what the cluster refuses, and the ACL that would allow it
asking      the requests, with the gateway's own credential: paced, to all nodes at once
readings    what was read, how old it is, and when it is read again
topics      topics with partitions, offsets, sizes and settings
groups      groups with members, offsets and lag
views       the views of the console, made of the readings

A reading runs in a task of its own, and only while somebody looks. No request of a client waits for one.
"""
