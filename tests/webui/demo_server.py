"""The console with invented data: `python -m tests.webui.demo_server [--port N] [--empty]`.

For looking at pages while working on them, and for the screenshots. Tokens: admin-token, editor-token,
viewer-token.
"""

import argparse
import time
from functools import partial

import trio

from broker.security.console_links import link_with
from tests.webui.fakes import FakeBroker, console_config
from tests.webui.simulation import Simulation
from webui.http.app import monotonic_ms
from webui.security.origin import OwnHost
from webui.serving import serve_console


async def serve(port: int, *, empty: bool, warehouse: str) -> None:
    broker = FakeBroker(now_ms=time.time_ns() // 1_000_000)
    async with trio.open_nursery() as nursery:
        if not empty:
            simulation = Simulation(broker)
            simulation.step(250)
            nursery.start_soon(simulation.run)
        settings = console_config(port=port, insights_warehouse=warehouse)
        start = partial(serve_console, broker.backend(), settings, shutdown=trio.Event())
        host, bound = await nursery.start(start)
        url = OwnHost(settings).url(host, bound, is_encrypted=False)
        print(f"Console: {link_with(url, broker.links.make(monotonic_ms()))}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--empty", action="store_true", help="a broker without traffic so far")
    parser.add_argument("--warehouse", default="", help="of `weir pipeline`, for the page Insights")
    given = parser.parse_args()
    try:
        trio.run(lambda: serve(given.port, empty=given.empty, warehouse=given.warehouse))
    except KeyboardInterrupt:
        print("stopped")


if __name__ == "__main__":
    main()
