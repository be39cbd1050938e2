"""Containers, volumes and images, through the commands that Docker and Podman share.

tests/image/run chooses the engine, and says in WEIR_IMAGE_OPTIONS what each container needs on this machine.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

HARDENED: Final = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
"""Options of a container that can change nothing but its volumes."""

COMMIT: Final = os.environ.get("WEIR_IMAGE_COMMIT", "")
"""The commit of the images' sources."""

LABELS: Final = "org.opencontainers.image."
HEALTHY_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 20


@dataclass(frozen=True)
class Engine:
    program: str
    options: tuple[str, ...]

    def call(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [self.program, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=600, check=False)

    def output(self, *arguments: str, stdin: str = "") -> str:
        """What the command prints. An error of the engine is an AssertionError with its words."""
        ended = self.call(*arguments, stdin=stdin)
        assert ended.returncode == 0, f"{' '.join(arguments)}: {ended.stderr}"
        return ended.stdout.strip()

    def inspect(self, image: str) -> dict[str, Any]:
        (found,) = json.loads(self.output("image", "inspect", image))
        assert isinstance(found, dict)
        return found

    def run(
        self, image: str, *command: str, options: tuple[str, ...] = ()
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command in place of the image's own, to its end."""
        entry, *arguments = command
        return self.call("run", "--rm", *self.options, *options, f"--entrypoint={entry}", image, *arguments)

    @contextmanager
    def volume(self) -> Iterator[str]:
        name = self.output("volume", "create")
        try:
            yield name
        finally:
            self.output("volume", "rm", name)

    @contextmanager
    def started(self, image: str, *arguments: str, options: tuple[str, ...] = ()) -> Iterator["Container"]:
        """Start the image's own command with these arguments; the container is removed with the block."""
        container = Container(self, f"weir-test-{secrets.token_hex(8)}")
        name = f"--name={container.name}"
        try:
            self.output("run", "--detach", name, *self.options, *options, image, *arguments)
            yield container
        except BaseException:
            print(container.log()[-4000:], file=sys.stderr)
            raise
        finally:
            self.call("rm", "--force", "--volumes", container.name)


def labels(engine: Engine, image: str) -> dict[str, str]:
    """The labels of an image that OCI has given a meaning, by their short names."""
    found = engine.inspect(image)["Config"]["Labels"]
    return {key.removeprefix(LABELS): text for key, text in found.items() if key.startswith(LABELS)}


@dataclass(frozen=True)
class Container:
    engine: Engine
    name: str

    def exec(self, *command: str) -> subprocess.CompletedProcess[str]:
        return self.engine.call("exec", self.name, *command)

    def health_check(self) -> list[str]:
        """The command of the image's health check, which the engine would run in the container."""
        (found,) = json.loads(self.engine.output("inspect", self.name))
        image = self.engine.inspect(found["Image"])
        check = image.get("HealthCheck") or image.get("Healthcheck") or image["Config"]["Healthcheck"]
        kind, *command = check["Test"]
        assert kind == "CMD"
        return [str(word) for word in command]

    def await_health(self) -> None:
        command = self.health_check()
        give_up = time.monotonic() + HEALTHY_WITHIN_S
        while self.exec(*command).returncode:
            assert time.monotonic() < give_up, "the health check never passed"
            time.sleep(0.1)

    def log(self) -> str:
        ended = self.engine.call("logs", self.name)
        return ended.stdout + ended.stderr

    def stop(self) -> int:
        """Send the image's stop signal, and SIGKILL after `STOP_WITHIN_S`. Returns the exit status."""
        self.engine.output("stop", "-t", str(STOP_WITHIN_S), self.name)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the image's command. Returns its exit status."""
        return int(self.engine.output("wait", self.name))
