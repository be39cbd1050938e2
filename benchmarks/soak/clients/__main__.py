"""Run one session of a client: `python -m benchmarks.soak.clients CLIENT JSON`; the end of the input ends it.

CLIENT is one of `CLIENTS`; the JSON object has the fields of `Session` that are not its own. Lines of
`teller` go to the output. The exit status is 0 also after an error, which is told.
"""

import asyncio
import faulthandler
import importlib
import json
import logging
import os
import sys
import threading
import time
from typing import Any, Final

from benchmarks.soak.clients.session import Session
from benchmarks.soak.clients.teller import Teller

CLIENTS: Final = {
    "librdkafka": ("librdkafka", "produce"),
    "transactions": ("librdkafka", "produce_transactions"),
    "copier": ("librdkafka", "copy"),
    "readers-librdkafka": ("librdkafka", "read"),
    "kafka-python": ("kafka_python", "produce"),
    "readers-kafka-python": ("kafka_python", "read"),
    "aiokafka": ("aiokafka_", "produce"),
    "readers-aiokafka": ("aiokafka_", "read"),
}
"""By its name: the module and the function of its sessions. A process imports the library that it needs."""


def main(name: str, seconds: float, **settings: Any) -> None:
    # The soak ends a process that hangs with SIGABRT, and this shows where each of its threads was.
    faulthandler.enable()
    # What clients log and do not raise is no error of a program that uses them.
    logging.getLogger().addHandler(logging.NullHandler())
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no line of the protocol
    session = Session(name, until=time.monotonic() + seconds, tell=Teller(output), **settings)
    threading.Thread(target=session.end_with, args=(0,), daemon=True).start()
    module, function = CLIENTS[name]
    try:
        getattr(importlib.import_module(f"benchmarks.soak.clients.{module}"), function)(session)
    # aiokafka's stop may raise the cancellation of its own task, which is no Exception.
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - a client's errors are looked for
        session.tell.error(name, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(sys.argv[1], **json.loads(sys.argv[2]))
