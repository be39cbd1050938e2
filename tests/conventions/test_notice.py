"""NOTICE names the packages of the images whose licences ask for it, and goes into them."""

import re
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

from tests.conventions.sources import ROOT

NOTICE: Final = (ROOT / "NOTICE").read_text(encoding="utf-8")
IN_IMAGES: Final = ("runtime", "insights", "pipeline")
ASKS: Final = re.compile(r"\b(?:[AL]?GPL|MPL|EPL|CDDL|EUPL)")


def _packages() -> set[str]:
    locks = ((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8") for name in IN_IMAGES)
    return {name for lock in locks for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)}


def _licence(name: str) -> str:
    """Return what a package says of its licence; an empty text if it is not installed here."""
    try:
        about = metadata(name)
    except PackageNotFoundError:
        return ""
    # Some have the whole text here, with the licences of what they bundle.
    stated = [about.get("License-Expression") or (about.get("License") or "").partition("\n")[0]]
    return " ".join([*stated, *(each for each in about.get_all("Classifier") or () if "License" in each)])


def test_a_package_whose_licence_asks_for_it_is_named() -> None:
    asking = {name for name in _packages() if ASKS.search(_licence(name))}
    assert "crc32c" in asking
    assert {name for name in asking if not re.search(rf"^{re.escape(name)}$", NOTICE, re.MULTILINE)} == set()


def test_the_images_have_the_notice() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "install --mode=0644 LICENSE NOTICE /opt/weir/share/" in dockerfile


def test_the_build_of_the_image_gets_each_file_that_it_copies() -> None:
    """`.dockerignore` leaves out what it does not name."""
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    for source in " ".join(copied).split():
        assert any(source == each or source.startswith(f"{each}/") for each in kept), source
