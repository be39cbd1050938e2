"""The engine and the images that tests/image/run names; without them these tests are skipped."""

import os

import pytest

from tests.image.containers import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    program = os.environ.get("WEIR_IMAGE_ENGINE")
    if not program:
        pytest.skip("make image-test builds the image")
    return Engine(program, tuple(os.environ["WEIR_IMAGE_OPTIONS"].split()))


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The broker's image."""
    return os.environ["WEIR_IMAGE"]


@pytest.fixture(scope="session")
def pipeline_image(engine: Engine) -> str:
    return os.environ["WEIR_PIPELINE_IMAGE"]
