"""Starts `weir` without importing it each time, which is two thirds of the processor time of a start.

The first start makes an interpreter that has imported Weir. From then on that one forks each `weir`, with the
arguments, environment, folder and open files that a program would get. It is a process of its own: the child
of the tests, with its own memory, signals and exit. What cannot be forked is started as a program: another
command, another environment of Python, a build, a session of its own, a terminal.

`python -P forked_weir.py` is that interpreter. Its standard input is the socket that it is asked through.
"""

import ctypes
import gc
import importlib
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, AnyStr, Final

WEIR: Final = Path(sys.executable).with_name("weir")

IMPORTED: Final = (
    "broker.__main__",
    "broker.server.app",
    "broker.server.gateway",
    "broker.tools.quotas",
    "webui.http.app",
    "webui.serving",
)
"""What these import is more than nine tenths of what a broker imports."""

OF_INTERPRETER: Final = ("PYTHON", "LD_", "MALLOC_", "LC_", "LANG", "TZ", "WEIR_BUILD")
"""What the environment variables begin with that are read when an interpreter begins, or before an import."""

ENDED_WITHIN_S: Final = 60.0

PR_SET_CHILD_SUBREAPER: Final = 36
PLAIN: Final[dict[str, object]] = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "startupinfo": None,
    "creationflags": 0,
    "shell": False,
    "restore_signals": True,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "start_new_session": False,
    "process_group": -1,
}
"""The options of a Popen that leaves them alone."""

EXECUTE_CHILD: Final = inspect.signature(subprocess.Popen._execute_child)  # type: ignore[attr-defined]


class ForkedPopen(subprocess.Popen[AnyStr]):
    """A Popen that forks the interpreter instead, where the command is `WEIR` and nothing else is special."""

    def _execute_child(self, *arguments: Any) -> None:
        given = EXECUTE_CHILD.bind(self, *arguments).arguments
        env = dict(os.environ if given["env"] is None else given["env"])
        files = [
            own if there == -1 else there
            for own, there in enumerate((given["p2cread"], given["c2pwrite"], given["errwrite"]))
        ]
        is_plain = all(given[name] == value for name, value in PLAIN.items())
        command = [os.fsdecode(each) for each in given["args"]]
        if (
            not is_plain
            or command[0] != str(WEIR)
            or of_interpreter(env) != of_interpreter(os.environ)
            or env.get("WEIR_BUILD") != "no"
            or any(map(os.isatty, files))
        ):
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        folder = os.fspath(given["cwd"] or os.getcwd())
        try:
            self.pid = interpreter().fork(command, env, folder, files)
        finally:
            pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
            self._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]
        self._child_created = True


def run_weir(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of `weir` until it ends."""
    command = [str(WEIR), *arguments]
    pipe = subprocess.PIPE
    with ForkedPopen(command, env=env, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            stdout, stderr = process.communicate(timeout=ENDED_WITHIN_S)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def of_interpreter(env: Any) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(OF_INTERPRETER)}


class Interpreter:
    """The one that has imported Weir, as the tests know it."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._adopts = ctypes.CDLL(None, use_errno=True).prctl
        self.made_for = of_interpreter(os.environ)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__], stdin=theirs, stdout=subprocess.DEVNULL
            )
        assert self._ours.recv(1) == b"1", "the interpreter of forked_weir.py has ended"

    def fork(self, command: list[str], env: dict[str, str], folder: str, files: list[int]) -> int:
        """Return the process id of a `weir`, which is a child of this process."""
        request = json.dumps([command, env, folder]).encode()
        with self._lock:
            # The process between the interpreter and `weir` ends at once. Whose child `weir` is then is this
            # process meanwhile, instead of the first process of the machine.
            self._adopts(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._ours, [len(request).to_bytes(4, "big")], files)
                self._ours.sendall(request)
                answer = self._ours.recv(4, socket.MSG_WAITALL)
            finally:
                self._adopts(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert len(answer) == 4, "the interpreter of forked_weir.py has ended"
        return int.from_bytes(answer, "big")


_INTERPRETERS: Final[dict[int, Interpreter]] = {}
"""By the process that asks: one of `pytest --processes` has its own."""


def interpreter() -> Interpreter:
    """Return that of this process, which ends with it."""
    found = _INTERPRETERS.get(os.getpid())
    if found is None or found.made_for != of_interpreter(os.environ):
        found = _INTERPRETERS[os.getpid()] = Interpreter()
    return found


def serve() -> bool:
    """Fork whenever the socket asks for it. Returns True in each `weir`, False once the tests have ended."""
    asked = socket.socket(fileno=os.dup(0))
    asked.sendall(b"1")
    while True:
        size, files, _, _ = socket.recv_fds(asked, 4, 3)
        if not size:
            return False
        command, env, folder = json.loads(asked.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL))
        reading, writing = os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid:
                os.write(writing, pid.to_bytes(4, "big"))
                os._exit(0)
            for each in (asked.detach(), reading, writing):
                os.close(each)
            become(command, env, folder, files)
            return True
        os.waitpid(between, 0)
        asked.sendall(os.read(reading, 4))
        for each in (*files, reading, writing):
            os.close(each)


def become(command: list[str], env: dict[str, str], folder: str, files: list[int]) -> None:
    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[:] = command
    sys.path.insert(0, str(WEIR.parent))


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    if serve():
        from broker.start import main

        main()
