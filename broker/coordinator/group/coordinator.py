"""The group coordinator: this broker's groups of all types.

Called by `coordinator.group_service`, which writes the records and sends the responses. `classic`,
`consumer`, `share` and `streams` handle what members of each type request, `offsets` the committed offsets,
all of them over one `groups`; here is what concerns groups of any type.

A call returns at once. A JoinGroup or SyncGroup whose token is not among the replies is pending: a later call
returns its reply. A call whose records could not be written is rolled back. (Kafka: GroupCoordinatorService)
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from uuid import uuid4

from broker.common.errors import ErrorCode
from broker.config.sections.groups import ConsumerGroupConfig, GroupConfig
from broker.config.sections.share_groups import ShareGroupConfig
from broker.coordinator.group import offsets, persistence, rebalance
from broker.coordinator.group.any_group import AnyGroup
from broker.coordinator.group.classic import ClassicCoordinator
from broker.coordinator.group.consumer.assignment import ClusterTopics
from broker.coordinator.group.consumer.coordinator import ConsumerCoordinator
from broker.coordinator.group.expiry import OffsetRetention, TimerExpiry
from broker.coordinator.group.groups import GROUPS_AT_ONCE, Groups, StreamsSettingsOf, TimesOf
from broker.coordinator.group.messages import DeleteReply, Effects, GroupOverview, ListedGroup, Now, Token
from broker.coordinator.group.modern_group import ModernGroup
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.share.coordinator import ShareCoordinator
from broker.coordinator.group.streams.coordinator import StreamsCoordinator
from broker.coordinator.group.transition import Transition


class GroupCoordinator:
    """The coordinator, one per broker.

    `topics` returns the topics of the cluster, `times_of` the settings of a consumer group, `share_times_of`
    those of a share group and `streams_settings_of` those of a streams group. `new_uuid` makes the part of a
    member id that distinguishes members with the same client id.
    """

    def __init__(
        self,
        config: GroupConfig,
        consumer: ConsumerGroupConfig,
        share: ShareGroupConfig,
        topics: Callable[[], ClusterTopics],
        times_of: TimesOf,
        share_times_of: TimesOf,
        streams_settings_of: StreamsSettingsOf,
        new_uuid: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._config = config
        self.groups = Groups(config, consumer, share, topics, times_of, share_times_of, streams_settings_of)
        self.classic = ClassicCoordinator(self.groups, config, new_uuid)
        self.consumer = ConsumerCoordinator(self.groups, consumer, new_uuid)
        self.share = ShareCoordinator(self.groups, share)
        self.streams = StreamsCoordinator(self.groups)
        self.offsets = GroupOffsets(self.groups)
        self._retention = OffsetRetention(self.groups, config)
        expiry = TimerExpiry(self.groups, self.classic, self._retention)
        self.next_deadline = expiry.next_deadline
        self.expire = expiry.expire
        self.roll_back = self.groups.roll_back
        self.release = self.groups.release

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of __consumer_offsets, in log order. Raises UnreadableRecord."""
        persistence.replay(self.groups.by_id, key, value)

    def loaded(self, now: Now) -> Effects:
        """Start the sessions after all records are replayed, and rebalance groups above `group.max.size`."""
        transition = self.groups.transition(now)
        self._retention.start(transition)
        for group in self.groups.by_id.values():
            if isinstance(group, ModernGroup):
                group.finish()
                self.groups.resume(transition, group.group_id)
                continue
            for member in group.members.values():
                rebalance.start_session(transition, member)
            if len(group.members) > self._config.max_size:
                rebalance.prepare(transition, group)
        return transition.effects

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups.by_id)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self.groups.by_id

    def listed_in_pieces(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Iterator[list[ListedGroup]]:
        """Handle ListGroups: the groups in one of the states and of one of the types (KIP-518, KIP-848).

        Filters are case-insensitive; an empty filter matches everything. Yields after GROUPS_AT_ONCE
        groups, matching or not; groups created meanwhile are skipped.
        """
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {group_type.strip().lower() for group_type in types}
        groups = list(self.groups.by_id.values())
        for at in range(0, len(groups), GROUPS_AT_ONCE):
            yield [
                _listed(group)
                for group in groups[at : at + GROUPS_AT_ONCE]
                if self.groups.get(group.group_id) is group
                and (not wanted_types or group.type in wanted_types)
                and (not wanted_states or group.state.value.lower() in wanted_states)
            ]

    def overview(self, group_id: str) -> GroupOverview | None:
        """Describe a group of any type; None for a missing one."""
        group = self.groups.get(group_id)
        if group is None:
            return None
        clients = tuple((member.client_id, member.client_host) for member in group.members.values())
        return GroupOverview(group_id, group.type, group.state.value, group.is_empty, clients)

    def delete(self, group_ids: Sequence[str], token: Token, now: Now) -> Effects:
        """Handle DeleteGroups: delete empty groups with their offsets."""
        transition = self.groups.transition(now)
        transition.reply(
            token, DeleteReply(tuple(self._delete_one(transition, group_id) for group_id in group_ids))
        )
        return transition.effects

    def delete_some_offsets(self, group_id: str, token: Token, now: Now) -> Effects:
        """Delete OFFSETS_AT_ONCE offsets of a group that is to be deleted; the reply is as of `delete`.

        A member that joins before the group is deleted keeps the group, without these offsets.
        """
        transition = self.groups.transition(now)
        error = self._check_delete(group_id)
        if not error:
            offsets.drop_some(transition, self.groups.by_id[group_id])
        transition.reply(token, DeleteReply((error,)))
        return transition.effects

    def _check_delete(self, group_id: str) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP

    def _delete_one(self, transition: Transition, group_id: str) -> ErrorCode:
        error = self._check_delete(group_id)
        if not error:
            group = self.groups.by_id[group_id]
            offsets.drop_all(transition, group)
            self.groups.remove(transition, group)
        return error


def _listed(group: AnyGroup) -> ListedGroup:
    return ListedGroup(
        group.group_id,
        group.protocol_type or "",
        group.state.value,
        group.type,
        len(group.members),
    )
