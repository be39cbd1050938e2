"""Rebuilds groups from the records of __consumer_offsets, in log order.

Called by `coordinator`. The last record of a key wins. (Kafka: GroupMetadataManager.)
"""

from broker.groups.classic.group import Group
from broker.groups.classic.stored import restore
from broker.groups.records import GroupKey, OffsetKey, decode_group_value, decode_key, decode_offset_value

Groups = dict[str, Group]


def replay(groups: Groups, key: bytes, value: bytes | None) -> None:
    """Apply one record. Skips records of other group types. Raises UnreadableRecord."""
    match decode_key(key):
        case OffsetKey(group_id, topic, partition):
            _replay_offset(groups, group_id, topic, partition, value)
        case GroupKey(group_id):
            _replay_group(groups, group_id, value)


def _replay_offset(groups: Groups, group_id: str, topic: str, partition: int, value: bytes | None) -> None:
    if value is not None:
        group = groups.get(group_id)
        if group is None:
            group = groups[group_id] = Group(group_id)
        group.offsets.setdefault(topic, {})[partition] = decode_offset_value(value)
    elif group_id in groups:
        offsets = groups[group_id].offsets
        by_partition = offsets.get(topic, {})
        if by_partition.pop(partition, None) is not None and not by_partition:
            del offsets[topic]


def _replay_group(groups: Groups, group_id: str, value: bytes | None) -> None:
    before = groups.get(group_id)
    if value is None:
        groups.pop(group_id, None)
        return
    group = Group(group_id)
    restore(group, decode_group_value(value))
    if before is not None:
        group.offsets = before.offsets
    groups[group_id] = group
