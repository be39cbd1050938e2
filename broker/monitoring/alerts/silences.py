"""Which silences hold back the notifications of an alert. Pure: the time is an argument.

Called by broker.monitoring.alerts.task. A silence is in force until its end, and not at it.
"""

from collections.abc import Iterable, Mapping

from broker.common.patterns import glob
from broker.common.slices import Steps
from broker.controller.rows.alerts import Labels
from broker.metadata.alerts import SilenceEntry

Subject = tuple[str, Labels]
"""A rule and what its alert is about."""


def silenced(
    subjects: Iterable[Subject], entries: Iterable[SilenceEntry], wall_ms: int
) -> Steps[Mapping[Subject, list[SilenceEntry]]]:
    """Return the silences in force of each subject that has any. Matching a name can take 2 ms, so it is a
    step of its own.
    """
    in_force = [
        (entry, glob(entry.silence.match) if entry.silence.match else None)
        for entry in entries
        if entry.silence.ends_at_ms > wall_ms
    ]
    found: dict[Subject, list[SilenceEntry]] = {}
    for rule, labels in subjects:
        for entry, pattern in in_force:
            if entry.silence.rule not in ("", rule):
                continue
            matches = pattern is None
            for _, text in labels if pattern is not None else ():
                yield
                if pattern is not None and pattern.fullmatch(text):
                    matches = True
                    break
            if matches:
                found.setdefault((rule, labels), []).append(entry)
        yield
    return found
