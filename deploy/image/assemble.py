"""Copies what the broker needs of this system into an empty folder: the root of its image.

Called by the Dockerfile in a stage that has the installed broker: `python3 assemble.py ROOT APPLICATION`.
Takes Python with its standard library, the application, the shared libraries of both, a shell with `env` and
`cat`, and the authorities of TLS. There is no package manager and no other program. What comes from a Debian
package is listed in /var/lib/dpkg/status.d, where scanners look for it, with its licence in /usr/share/doc.

The same input makes the same files: times are SOURCE_DATE_EPOCH, and byte code names no time.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("/bin/sh", "/usr/bin/env", "/bin/cat")
SYSTEM_FILES = ("/etc/os-release", "/etc/debian_version", "/etc/ssl/openssl.cnf", "/usr/lib/ssl/openssl.cnf")
AUTHORITIES = Path("/usr/share/ca-certificates/mozilla")
USERS = "root:x:0:0:root:/root:/usr/sbin/nologin\nweir:x:909:909::/var/lib/weir:/usr/sbin/nologin\n"
TEXTS = {
    "etc/passwd": USERS,
    "etc/group": "root:x:0:\nweir:x:909:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
FOLDERS = {"tmp": 0o1777, "run": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "var/lib/weir": 0o750}
TESTS = ("test", "tests", "_tests")
NOT_IN_USE = (*TESTS, "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data")
"""Folders of the standard library and of packages."""


class Root:
    """The folder that becomes the image's root. Paths are those of this system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken: set[Path] = set()
        """Files, not links."""

    def at(self, path: Path) -> Path:
        return self.folder / path.relative_to("/")

    def take(self, path: Path) -> None:
        """Copy a file, and what leads to it: a link is copied with its target."""
        parent = path.parent.resolve()
        for folder in reversed(path.parents):
            link = self.at(folder.parent.resolve() / folder.name)
            if folder.is_symlink() and not link.is_symlink():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.readlink(folder))
        path = parent / path.name
        target = self.at(path)
        if target.exists() or target.is_symlink():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(os.readlink(path))
            pointed_at = parent / os.readlink(path)
            if not pointed_at.is_dir():
                self.take(pointed_at)
        else:
            shutil.copy2(path, target)
            self.taken.add(path)

    def take_folder(self, folder: Path, *left_out: str) -> None:
        for path in sorted(folder.iterdir()):
            if path.name == "__pycache__" or path.name in left_out:
                continue
            if path.is_dir() and not path.is_symlink():
                self.take_folder(path, *left_out)
            else:
                self.take(path)

    def write(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def is_elf(path: Path) -> bool:
    with path.open("rb") as opened:
        return opened.read(4) == b"\x7fELF"


def libraries(program: Path) -> Iterator[Path]:
    """Yield the paths of the shared libraries of a program or library, and of its loader."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for found in re.findall(r"(?:=> )?(/\S+) \(0x", listed):
        yield Path(found)


def take_libraries(root: Root) -> None:
    new = set(root.taken)
    while new:
        before = set(root.taken)
        for path in sorted(new):
            if is_elf(path):
                for library in libraries(path):
                    root.take(library)
        new = root.taken - before


def record_packages(root: Root) -> None:
    """Write what dpkg knows about the packages of the files."""
    paths = {str(path) for path in root.taken}
    # dpkg knows a file of /usr/lib by the name that its package gave it, which may be in /lib.
    paths |= {path.removeprefix("/usr") for path in paths}
    found = subprocess.run(["dpkg-query", "-S", *sorted(paths)], capture_output=True, text=True, check=False)
    names = {line.partition(": ")[0] for line in found.stdout.splitlines() if ", " not in line}
    for name in sorted(names):
        status = subprocess.run(["dpkg-query", "-s", name], capture_output=True, text=True, check=True).stdout
        short = name.partition(":")[0]
        root.write(f"var/lib/dpkg/status.d/{short}", status)
        if (licence := Path("/usr/share/doc") / short / "copyright").exists():
            root.take(licence)


def strip(root: Root) -> None:
    """Remove the symbols that only debuggers read."""
    for path in sorted(root.folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and is_elf(path):
            path.chmod(path.stat().st_mode | 0o200)
            subprocess.run(["strip", "--strip-unneeded", path], check=True)


def compile_all(root: Root, *folders: Path) -> None:
    for folder in folders:
        compileall.compile_dir(
            root.at(folder),
            quiet=2,  # a package may have templates that are no Python
            force=True,
            stripdir=str(root.folder),
            prependdir="/",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def set_times(root: Root, seconds: int) -> None:
    for path in (root.folder, *root.folder.rglob("*")):
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def main(folder: Path, application: Path) -> None:
    root = Root(folder)
    folder.mkdir()
    for name, text in TEXTS.items():
        root.write(name, text)
    for name, mode in FOLDERS.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name).chmod(mode)
    for program in (*PROGRAMS, f"{sys.base_prefix}/bin/python3"):
        root.take(Path(program))
    library = Path(sysconfig.get_path("stdlib"))
    build = [path.name for path in library.glob("config-*")]
    root.take_folder(library, *NOT_IN_USE, "site-packages", "dist-packages", *build)
    root.take_folder(application, *NOT_IN_USE)
    take_libraries(root)
    for path in map(Path, SYSTEM_FILES):
        if path.exists():
            root.take(path)
    authorities = "".join(path.read_text("ascii") for path in sorted(AUTHORITIES.glob("*.crt")))
    root.write("etc/ssl/certs/ca-certificates.crt", authorities)
    (folder / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    record_packages(root)
    strip(root)
    compile_all(root, library, application)
    root.write("etc/ld.so.conf", "/usr/local/lib\n")
    subprocess.run(["ldconfig", "-r", folder], check=True)
    shutil.rmtree(folder / "var/cache", ignore_errors=True)  # of ldconfig, with times
    set_times(root, int(os.environ["SOURCE_DATE_EPOCH"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
