"""Stands in for the reading process: does what the SQL of a question says.

`say TEXT`, `twice TEXT` (the same whatever is known), `hang`, `end`, `rubbish`, `half`, or an outcome. Every
question leaves a line in the file `asked` of its folder, with the number of the process.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    request_file = Path(sys.argv[1]) / "asked"
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        question = json.loads(line)
        with request_file.open("a") as file:
            file.write(f"{os.getpid()} {question['sql']}\n")
        word, _, text = question["sql"].partition(" ")
        body = json.dumps(text).encode()
        head = {"outcome": "rows", "stamp": ["id", text], "size": len(body)}
        if word == "say" and question["known"] == head["stamp"]:
            out.write(b'{"outcome":"same"}\n')
        elif word in ("say", "twice"):
            out.write(json.dumps(head).encode() + b"\n" + body)
        elif word == "hang":
            time.sleep(3_600)
        elif word == "end":
            return
        elif word == "rubbish":
            out.write(b"no JSON\n")
        elif word == "endless":
            out.write(b"x" * 1_000_000)
        elif word == "huge":
            out.write(b'{"outcome":"rows","size":999999999}\n')
        elif word == "half":
            out.write(json.dumps(head | {"size": 100}).encode() + b"\nhalf")
            out.flush()
            return
        else:
            out.write(json.dumps({"outcome": word, "message": "It is so."}).encode() + b"\n")
        out.flush()


main()
