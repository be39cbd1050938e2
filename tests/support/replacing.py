"""Replaces a method of the broker, to count its calls or to break a step that nothing from outside breaks."""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest


def replace_method(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, method: Callable[..., Any]
) -> None:
    """Replace a method until the test ends. Skips the test if the method is compiled: its compiled callers do
    not look it up, and what they do about an exception is the same source.
    """
    if not isinstance(inspect.getattr_static(owner, name), FunctionType):
        pytest.skip(f"{owner.__qualname__}.{name} is compiled")
    monkeypatch.setattr(owner, name, method)
