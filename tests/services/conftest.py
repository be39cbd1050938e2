"""The same broker without a network as the handlers are tested with."""

from tests.api.conftest import harness

__all__ = ["harness"]
