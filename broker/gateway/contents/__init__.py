"""What the upstream cluster contains, as the console and REST of a gateway show and change it.

refusals        what the cluster refuses, and the ACL that would allow it
asking          the requests, with the gateway's own credential: paced, to several nodes at once
readings        what was read, how old it is, and when it is read again
topics          topics with partitions, offsets, sizes and settings; `configs` has all settings of one
groups          groups with members, offsets and lag; `streams_groups` those of Kafka Streams
transactions    transactional ids, and where open transactions hold readers back
access          ACLs and SCRAM users
records         records, read and produced
topic_changes, group_changes, access_changes
                what an operator changes, as operations of `controller.control`
views           the views of the console, made of the readings
contents        all of it

A reading runs in a task of its own, and only while somebody looks. No request of a client waits for one.
"""
