"""The file by which a supervisor sees that the stream goes on. The image's health check looks at its time.

`run` touches it when it starts, and then whenever a batch has ended or the stream waits for the next one.
"""

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "WEIR_PIPELINE_ALIVE"


def touch() -> None:
    """Touch the file that the variable names, if it names one."""
    file = os.environ.get(VARIABLE)
    if file:
        Path(file).touch()
