"""The networkless broker of the handler tests."""

from tests.api.conftest import harness

__all__ = ["harness"]
