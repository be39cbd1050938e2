"""A Secret as kubelet mounts it into a container: each file is a link through `..data`, and a new version of
all files is put in place by replacing that one link.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


class SecretVolume:
    """`directory` is where the container mounts it."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self.directory = directory
        self._version = 0
        directory.mkdir()
        self.write(files)

    def path(self, name: str) -> Path:
        return self.directory / name

    def write(self, files: Mapping[str, str]) -> None:
        """Replace the content as kubelet does: in the order of its steps."""
        data = self.directory / "..data"
        old = self.directory / os.readlink(data) if data.is_symlink() else None
        self._version += 1
        new = self.directory / f"..2026_11_30_07_30_00.{self._version}"
        new.mkdir(0o755)
        for name, text in files.items():
            file = new / name
            file.touch(0o640)
            file.write_text(text)
        link = self.directory / "..data_tmp"
        link.symlink_to(new.name)
        os.rename(link, data)
        for name in files:
            if not self.path(name).is_symlink():
                self.path(name).symlink_to(f"..data/{name}")
        if old is not None:
            shutil.rmtree(old)
