"""A group of commands that are imported when they are called, so that a broker starts without them."""

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """`later` has commands by name, each as module:attribute. Their one-line helps are read when somebody
    asks for the list, which imports them all.
    """

    def __init__(self, *args: Any, later: dict[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._later = later

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._later})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self._later.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command
