"""The results: one line of JSON per (round, peer, load), on disk as soon as it is known.

Used by benchmarks.run, which skips existing results, and by benchmarks.report. Independent of brokers.
"""

import json
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

START: Final = "start"  # the cell of a peer's start-up time and idle memory, before any load


@dataclass(frozen=True, slots=True)
class Cell:
    """One result: the load's output with the broker's memory and processor time, or only `failed`."""

    round: int
    peer: str
    load: str
    result: dict[str, Any]

    @property
    def key(self) -> tuple[int, str, str]:
        return self.round, self.peer, self.load

    @property
    def failed(self) -> bool:
        return "failed" in self.result


@dataclass(slots=True)
class Cells:
    """A folder with `settings.json` and `cells.jsonl`. A continued run repeats failed cells."""

    folder: Path
    settings: dict[str, Any]
    by_key: dict[tuple[int, str, str], Cell] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Self:
        cells = cls(folder, json.loads((folder / "settings.json").read_text(encoding="utf-8")))
        lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
        for cell in (Cell(**json.loads(line)) for line in lines):
            cells.by_key[cell.key] = cell
        return cells

    @classmethod
    def resume_or_begin(cls, folder: Path, settings: dict[str, Any], *, fresh: bool) -> Self:
        """Continue the run in `folder`, or begin one; `fresh` renames an earlier run by its date."""
        if (folder / "settings.json").exists():
            if not fresh:
                return cls.load(folder)
            folder.rename(folder.with_name(f"{folder.name}-{time.strftime('%Y%m%d-%H%M%S')}"))
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
        (folder / "cells.jsonl").touch()
        return cls(folder, settings)

    def has(self, round_number: int, peer: str, load: str) -> bool:
        cell = self.by_key.get((round_number, peer, load))
        return cell is not None and not cell.failed

    def add(self, cell: Cell) -> None:
        self.by_key[cell.key] = cell
        with (self.folder / "cells.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(cell)) + "\n")

    def good(self, peer: str, load: str) -> list[dict[str, Any]]:
        """Return the results of every successful round of this peer and load."""
        return [c.result for c in self.by_key.values() if (c.peer, c.load) == (peer, load) and not c.failed]

    def failures(self) -> list[Cell]:
        return [cell for cell in self.by_key.values() if cell.failed]
