"""Completes the replacement of segments by their cleaned copy when the broker starts (Kafka's LogLoader).

Called by `recovery` before it lists the segments. `PartitionLog.replace` does the same while the broker
runs, in this order, so that a kill at any point leaves either the old segments or their copy:

    00..0.log.cleaned   the copy is being written: a start removes it
    00..0.log.swap      the copy is complete and on disk: a start removes the segments that it replaces
    00..0.log.deleted   a segment that was replaced: a start removes it
    00..0.log           the copy has its final name

The copy ends with the last offset of the segments that it replaces, so its own records tell which they are.
"""

import os
from typing import Final

from broker.log import disk
from broker.log.disk import MIN_OPEN_FILES, OpenFiles
from broker.log.layout import LOG, SWAP, parse_segment_file
from broker.log.segment import Segment

_LOG_SWAP: Final = LOG + SWAP


def finish_swaps(directory: str) -> None:
    """Complete the replacements of a partition's directory. A kill meanwhile leaves work for the next start.

    Raises OSError.
    """
    names = disk.names_in(directory)
    for name in names:
        if not name.endswith(_LOG_SWAP):
            continue
        parsed = parse_segment_file(name.removesuffix(SWAP))
        if parsed is None:
            continue
        size = disk.size_of(os.path.join(directory, name))
        cleaned = Segment(OpenFiles(MIN_OPEN_FILES), directory, parsed[0], size=size, name_suffix=SWAP)
        end = cleaned.last_extent().end_offset
        for other in names:
            replaced = parse_segment_file(other)
            if replaced is not None and cleaned.base_offset < replaced[0] < end:
                disk.remove(os.path.join(directory, other))
        cleaned.rename("")
