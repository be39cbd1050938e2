"""A store on an empty directory."""

from tests.log.conftest import store, where  # noqa: F401 - fixtures
