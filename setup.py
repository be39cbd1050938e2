"""Compiles with mypyc what pyproject.toml lists under [tool.weir.compiled], if WEIR_COMPILED=1.

Without that variable, a build needs neither mypy nor a C compiler.
"""

import os
import tomllib
from pathlib import Path

from setuptools import setup

extensions = []
if os.environ.get("WEIR_COMPILED") == "1":
    from mypyc.build import mypycify

    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text())
    # -O3 makes it a third of a megabyte larger and no faster.
    extensions = mypycify(
        project["tool"]["weir"]["compiled"]["modules"],
        group_name="broker.weir",
        opt_level="2",
        debug_level="0",
    )
    for extension in extensions:
        # What is not exported needs no symbol table, and is called directly.
        extension.extra_compile_args.append("-fvisibility=hidden")
        # A fused multiplication and addition rounds once where the interpreter rounds twice.
        extension.extra_compile_args.append("-ffp-contract=off")

setup(ext_modules=extensions)
