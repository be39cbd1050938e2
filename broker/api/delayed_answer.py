"""A completed response that the retry-storm gate delays; it has no watch keys, only a timeout."""

from broker.api.context import RequestContext
from broker.api.outcome import Answered
from broker.purgatory.purgatory import DelayedOperation


class DelayedAnswer(DelayedOperation):
    __slots__ = ("_answer", "context")

    def __init__(self, delay_ms: int, context: RequestContext, answer: Answered) -> None:
        super().__init__(delay_ms)
        self.context = context
        self._answer = answer

    def answered(self) -> Answered:
        """Return the delayed response."""
        return self._answer

    def is_ready(self) -> bool:
        return False
