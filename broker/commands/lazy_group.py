"""A click group that imports a command when it is called, so that a broker starts without it."""

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose commands are in `later`, by name, as module:attribute.

    Listing the commands imports them all, for their one-line helps.
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
