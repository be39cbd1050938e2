"""HAProxy and nginx as processes, in front of ports of this machine; tests skip where they are not installed.

A balancer listens on 127.0.0.3, at the same ports as what it is in front of, and connects from 127.0.0.9, so
that its own address is neither that of its clients nor that of the server.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.machine_speed import WITHIN_S

HOST: Final = "127.0.0.3"
SOURCE: Final = "127.0.0.9"
SERVER: Final = "127.0.0.1"

NGINX_STREAM: Final = Path("/usr/lib/nginx/modules/ngx_stream_module.so")

HAPROXY_HEAD: Final = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
"""

NGINX_HEAD: Final = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/nginx.log;
load_module {module};
events {{ worker_connections 256; }}
"""

HAPROXY: Final = {
    "haproxy v1": "send-proxy",
    "haproxy v2": "send-proxy-v2 check check-send-proxy inter 50ms",
    "haproxy v2 with a checksum": "send-proxy-v2 proxy-v2-options crc32c check check-send-proxy inter 50ms",
}
"""Options of a server by the name of the way; two have health checks, which are LOCAL."""

WAYS: Final = (*HAPROXY, "nginx v1")


@contextmanager
def balancer(directory: Path, way: str, ports: Sequence[int], *, http: bool = False) -> Iterator[None]:
    """Run a balancer in front of some ports until the block is left. With `http` it is an HTTP proxy that
    appends X-Forwarded-For. Skips the test where it is not installed.
    """
    directory.mkdir(exist_ok=True)
    if way.startswith("haproxy"):
        if shutil.which("haproxy") is None and not Path("/usr/sbin/haproxy").exists():
            pytest.skip("haproxy is not installed")
        config = directory / "haproxy.cfg"
        config.write_text(_haproxy(HAPROXY[way], ports, http=http))
        command = ["/usr/sbin/haproxy", "-f", str(config)]
    else:
        if not Path("/usr/sbin/nginx").exists() or not NGINX_STREAM.exists():
            pytest.skip("nginx, or its stream module, is not installed")
        config = directory / "nginx.conf"
        config.write_text(_nginx(directory, ports))
        command = ["/usr/sbin/nginx", "-p", str(directory), "-c", str(config)]
    with (directory / "balancer.output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        for port in ports:
            _wait_for(process, port, directory)
        yield
    finally:
        process.terminate()
        process.wait(WITHIN_S)


def _haproxy(options: str, ports: Sequence[int], *, http: bool) -> str:
    mode = "    mode http\n    option forwardfor\n" if http else ""
    options = "" if http else options
    return HAPROXY_HEAD + "".join(
        f"listen of-{port}\n{mode}    bind {HOST}:{port}\n"
        f"    server weir {SERVER}:{port} source {SOURCE} {options}\n"
        for port in ports
    )


def _nginx(directory: Path, ports: Sequence[int]) -> str:
    servers = "".join(
        f"server {{ listen {HOST}:{port}; proxy_pass {SERVER}:{port}; "
        f"proxy_bind {SOURCE}; proxy_protocol on; }}\n"
        for port in ports
    )
    head = NGINX_HEAD.format(directory=directory, module=NGINX_STREAM)
    return f"{head}stream {{\n{servers}}}\n"


def _wait_for(process: subprocess.Popen[bytes], port: int, directory: Path) -> None:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            said = (directory / "balancer.output").read_text(errors="replace")
            assert process.poll() is None and time.monotonic() < deadline, said
            time.sleep(0.02)
        else:
            return
