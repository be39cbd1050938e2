"""The console on a made-up broker, served over a real socket. For the browser and for schemathesis."""

import threading
from functools import partial

import trio

from broker.config.sections.console import ConsoleConfig
from tests.webui.fakes import FakeBroker, console_config
from webui.serving import serve_console


class ServedConsole:
    """A console on a loopback port, in a thread of its own. The test changes the broker from outside.
    `address` is for programs, `pages` where browsers are sent.
    """

    def __init__(self, broker: FakeBroker, settings: ConsoleConfig = console_config()) -> None:  # noqa: B008
        self.broker = broker
        self.settings = settings
        self.address = self.pages = ""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._serve))

    def __enter__(self) -> "ServedConsole":
        self._thread.start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._thread.is_alive():
            trio.from_thread.run_sync(self._stop.set, trio_token=self._token)
        self._thread.join(20)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as nursery:
            serve = partial(serve_console, self.broker.backend(), self.settings, shutdown=self._stop)
            host, port = await nursery.start(serve)
            self.address = f"http://{host}:{port}"
            self.pages = f"http://weir-{port}.localhost:{port}"
            self._started.set()
