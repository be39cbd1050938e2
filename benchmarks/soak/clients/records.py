"""The records that a member was given and has not committed, for clients that leave this to the program."""

from collections.abc import Mapping
from typing import Any

from benchmarks.soak.clients.session import Session


class Read(dict[tuple[str, int], int]):
    """The offsets to commit. Empty after a rebalance: another member may have committed more since."""

    def note(self, session: Session, records: Mapping[Any, Any]) -> None:
        """Tell what was delivered: lists of records by their topic and partition."""
        places = {(each.topic, each.partition): several for each, several in records.items() if several}
        offsets = {place: [record.offset for record in several] for place, several in places.items()}
        session.tell.delivered(session.name, offsets)
        self.update((place, several[-1] + 1) for place, several in offsets.items())
