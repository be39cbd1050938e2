"""How Weir is built: archives that depend on the sources alone, and compiled modules if WEIR_COMPILED=1.

mypyc compiles what pyproject.toml lists under [tool.weir.compiled]. Without that variable, a build needs
neither mypy nor a C compiler.
"""

import gzip
import os
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

FIRST_YEAR_OF_A_ZIP = 315532800
IN_WHEEL = Path("weir/broker").is_dir()
"""Whether this is the copy of which deploy/weir_backend.py makes a wheel."""


class SourceDistribution(sdist):
    """A tar.gz without times, owner and modes of this checkout's files; setuptools writes all three."""

    def make_archive(self, base_name, format, *arguments, **options):
        if format != "gztar":
            return super().make_archive(base_name, format, *arguments, **options)
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_YEAR_OF_A_ZIP))
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            archive.add(options["base_dir"], filter=partial(without_checkout, seconds))
        return str(path)


class Wheel(bdist_wheel):
    """A wheel without the modes of this checkout's files; SOURCE_DATE_EPOCH is its files' time."""

    def run(self):
        """Refuse to put Weir's packages beside a user's, which may have the same names."""
        if not IN_WHEEL:
            raise SetupError("only `pip wheel .` makes a wheel, through deploy/weir_backend.py")
        super().run()

    def write_wheelfile(self, *arguments, **options):
        """Write the last file of the folder that becomes the wheel."""
        super().write_wheelfile(*arguments, **options)
        for path in Path(self.bdist_dir).rglob("*"):
            if path.is_file():
                path.chmod(common_mode(path.stat().st_mode))


class BuildOnAllCores(build_ext):
    """Compiles the C files of an extension beside each other."""

    def build_extensions(self):
        compile_in_turn = self.compiler.compile

        def compile_together(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as threads:
                objects = threads.map(lambda source: compile_in_turn([source], **options), sources)
                return list(chain.from_iterable(objects))

        self.compiler.compile = compile_together
        super().build_extensions()


def without_checkout(seconds, member):
    member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
    member.mode = 0o755 if member.isdir() else common_mode(member.mode)
    return member


def common_mode(mode):
    return 0o755 if mode & 0o100 else 0o644


extensions = []
if os.environ.get("WEIR_COMPILED") == "1":
    from mypyc.build import mypycify

    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text())
    modules = project["tool"]["weir"]["compiled"]["modules"]
    folder = "weir/broker" if IN_WHEEL else "broker"
    # -O3 makes it a third of a megabyte larger and no faster. The tests compile with -O0 and a file for each
    # module, which takes a fraction of the time.
    opt_level = os.environ.get("WEIR_OPT_LEVEL", "2")
    extensions = mypycify(
        [name.replace("broker", folder, 1) for name in modules],
        group_name=f"{folder.replace('/', '.')}.weir",
        opt_level=opt_level,
        debug_level="0",
        multi_file=opt_level == "0",
    )
    for extension in extensions:
        # mypyc writes the headers of a group with a dot in its name there, and looks for them elsewhere.
        extension.include_dirs.append(f"build/{folder}")
        # What is not exported needs no symbol table, and is called directly. A fused multiplication and
        # addition rounds once where the interpreter rounds twice.
        extension.extra_compile_args = [
            *extension.extra_compile_args,
            "-fvisibility=hidden",
            "-ffp-contract=off",
        ]

setup(
    cmdclass={"sdist": SourceDistribution, "bdist_wheel": Wheel, "build_ext": BuildOnAllCores},
    ext_modules=extensions,
)
