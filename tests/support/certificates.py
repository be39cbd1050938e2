"""Certificates for the tests of TLS, made anew by the openssl command: two authorities that know nothing of
each other, and whom they vouch for. Keys are on P-256, which costs a tenth of RSA.
"""

import atexit
import functools
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "a key's password"
_CONFIG = "[req]\ndistinguished_name=dn\n[dn]\n"


@dataclass(frozen=True)
class Identity:
    """`store` is what a key store of ours holds: key and chain in one file."""

    key: Path
    certificate: Path
    store: Path

    def text(self) -> str:
        return self.store.read_text()


class Authority:
    """One that signs. `certificate` is what trusts it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory / name
        self.directory.mkdir()
        (self.directory / "openssl.cnf").write_text(_CONFIG)
        self.certificate = self.directory / "ca.pem"
        self._key = self.directory / "ca.key"
        # From Python 3.13 on, clients want the usage of the key, and the id of the key that signed.
        signs = (
            "basicConstraints=critical,CA:TRUE",
            "keyUsage=critical,keyCertSign",
            "subjectKeyIdentifier=hash",
        )
        self._make(self._key, self.certificate, f"/CN={name}", signs)

    def sign(
        self,
        name: str,
        subject: str,
        *,
        password: str | None = None,
        algorithm: str = "ec",
        names: Sequence[str] = (),
    ) -> Identity:
        """An identity of this subject, good for localhost, 127.0.0.1 and these host names. It is kept under
        `name`.
        """
        key, certificate, store = (self.directory / f"{name}.{end}" for end in ("key", "pem", "store"))
        self._make(
            key,
            certificate,
            subject,
            (
                ",".join(("subjectAltName=DNS:localhost", *(f"DNS:{each}" for each in names)))
                + ",IP:127.0.0.1,IP:::1",
                "authorityKeyIdentifier=keyid",
            ),
            "-CA",
            str(self.certificate),
            "-CAkey",
            str(self._key),
            "-utf8",
            password=password,
            algorithm=algorithm,
        )
        store.touch(0o600)
        store.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return Identity(key, certificate, store)

    def _make(
        self,
        key: Path,
        certificate: Path,
        subject: str,
        extensions: Sequence[str],
        *more: str,
        password: str | None = None,
        algorithm: str = "ec",
    ) -> None:
        kind = {"ec": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), "rsa": ("rsa:2048",)}[algorithm]
        locked = ("-passout", f"pass:{password}") if password else ("-nodes",)
        arguments = (
            *("-config", str(self.directory / "openssl.cnf"), "-newkey", *kind, *locked, "-days", "2"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", subject),
            *(word for extension in extensions for word in ("-addext", extension)),
        )
        subprocess.run(["openssl", "req", "-x509", *arguments, *more], check=True, capture_output=True)


@dataclass(frozen=True)
class Certificates:
    """The certificates of the tests. The broker is `server`; `stranger` is signed by another authority."""

    authority: Authority
    server: Identity
    alice: Identity
    locked: Identity
    stranger: Identity

    def client_context(self, identity: Identity | None = None) -> ssl.SSLContext:
        """A client that trusts the authority, and shows this identity."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if identity is not None:
            context.load_cert_chain(identity.store)
        return context


def tls_settings(protocol: str = "SSL", **more: str) -> list[str]:
    """Overrides for a broker that listens on one port, with TLS, and whose clients may administer it.
    `client_auth="required"` is `ssl.client.auth=required` of this listener.
    """
    known = certificates()
    own = {
        "keystore_location": str(known.server.store),
        "truststore_location": str(known.authority.certificate),
        **more,
    }
    prefix = f"listener.name.{protocol.lower()}.ssl."
    return [
        f"listeners={protocol}://127.0.0.1:0",
        "wire.role=admin",
        *(f"{prefix}{key.replace('_', '.')}={value}" for key, value in own.items()),
    ]


@functools.cache
def certificates() -> Certificates:
    """Made once for a run of the tests; the folder goes with it."""
    directory = Path(tempfile.mkdtemp(prefix="weir-certificates-"))
    atexit.register(shutil.rmtree, directory)
    ours, theirs = Authority(directory, "authority"), Authority(directory, "elsewhere")
    return Certificates(
        ours,
        ours.sign("server", "/CN=broker"),
        ours.sign("alice", "/C=DE/O=Weir, Inc./OU=ops/CN=alice"),
        ours.sign("locked", "/CN=locked", password=PASSWORD),
        theirs.sign("stranger", "/CN=stranger"),
    )
