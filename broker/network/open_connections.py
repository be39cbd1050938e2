"""Finds and closes open connections for operators. Created by `server`."""

import logging

from broker.network.socket_server import SocketServer


class OpenConnections:
    """A `broker.control.closing.OpenConnections`."""

    __slots__ = ("_server",)

    def __init__(self, server: SocketServer) -> None:
        self._server = server

    def client_of(self, connection_id: str) -> str | None:
        for channel in self._server.channels():
            if channel.id == connection_id:
                return channel.client_id or ""
        return None

    def close_connection(self, connection_id: str) -> None:
        for _, selector in self._server.selectors():
            for channel in selector:
                if channel.id == connection_id:
                    selector.close_channel(channel, "closed by an operator", logging.INFO)
                    return
