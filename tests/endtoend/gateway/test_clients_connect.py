"""Kafka Connect's distributed worker, exactly once, directly and through a gateway."""

from pathlib import Path

import pytest

from tests.endtoend.test_clients_connect import copy_over_a_kill
from tests.support import jvm_clients, kafka_tools
from tests.support.gateway_process import Way
from tests.support.jvm_clients import classpath

pytestmark = [*jvm_clients.pytestmark, *kafka_tools.pytestmark]


def test_a_worker_that_is_killed_while_it_copies_loses_and_repeats_nothing(
    way: Way, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = classpath("connect", tmp_path_factory.mktemp("classes"))
    copy_over_a_kill(path, tmp_path, way, way.topic("copied"), 500)
