"""`weir` as a child of weir.testing: it ends with the process that started it.

    python -P -m weir.testing_process FOLDER serve ...

Its standard input is a pipe that nothing is written to. When the other end is closed, the tests were killed:
the broker stops, and the folder, which they can no longer delete, is deleted.
"""

import os
import shutil
import signal
import sys
import threading

from broker.start import main

__all__: list[str] = []


def run(folder: str) -> None:
    """Run `weir` with the rest of the command line."""
    left_alone = threading.Event()

    def wait() -> None:
        os.read(0, 1)
        left_alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
    try:
        main()
    finally:
        if left_alone.is_set():
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run(sys.argv.pop(1))
