"""The `Control` and the views of the controller's tests."""

from tests.controller.conftest import committer, control, gateway_views, live, shares, views

__all__ = ["committer", "control", "gateway_views", "live", "shares", "views"]
