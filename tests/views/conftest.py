"""The `Control` and the views of the controller's tests."""

from tests.controller.conftest import clock, committer, control, gateway_views, live, shares, views

__all__ = ["clock", "committer", "control", "gateway_views", "live", "shares", "views"]
