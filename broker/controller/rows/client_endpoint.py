"""A listener as clients reach it, and the commands and settings that reach it.

The socket server makes one for each listener of the data plane. The greeting, the console and the REST API
print what it returns. It knows no login and no file of the reader's: `USER`, `PASSWORD` and the `.pem` files
stand for theirs.
"""

import shlex
from collections.abc import Mapping
from typing import Final

import msgspec

CLIENT_PROPERTIES: Final = "client.properties"
"""The file that the commands of Kafka's tools name, if the listener needs more than an address."""

PLAINTEXT: Final = "PLAINTEXT"
OAUTHBEARER: Final = "OAUTHBEARER"
BY_STRENGTH: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", OAUTHBEARER, "PLAIN")
TOKEN_ENDPOINT: Final = "https://ISSUER/token"  # noqa: S105 - a placeholder

_PACKAGE: Final = "org.apache.kafka.common.security"
_LOGIN_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    OAUTHBEARER: f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}


class ClientEndpoint(msgspec.Struct, frozen=True):
    """`address` is host:port, with brackets around an IPv6 address. `protocol` is the security protocol,
    `mechanisms` are the SASL mechanisms of the listener. `needs_certificate`: a client presents its own.
    `creates_topics`: a client's role lets it create the topic of its first record.
    """

    address: str
    protocol: str = PLAINTEXT
    mechanisms: tuple[str, ...] = ()
    needs_certificate: bool = False
    creates_topics: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether the address is all that a client needs."""
        return self.protocol == PLAINTEXT

    @property
    def mechanism(self) -> str:
        """The strongest mechanism of the listener; "" without a login."""
        return next((each for each in BY_STRENGTH if each in self.mechanisms), "")

    def tool(self, program: str) -> list[str]:
        """Return the first words of a command of Kafka's tools."""
        words = [program, "--bootstrap-server", self.address]
        return words if self.is_plain else [*words, "--command-config", CLIENT_PROPERTIES]

    def java(self) -> dict[str, str]:
        """Return the settings of a Java client, but for the address; empty if it needs none."""
        if self.is_plain:
            return {}
        settings = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}
        if self.needs_certificate:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": "client.pem"}
        if self.mechanism:
            login = {"username": "USER", "password": "PASSWORD"}
            settings["sasl.mechanism"] = self.mechanism
            if self.mechanism == OAUTHBEARER:
                login = {"clientId": "ID", "clientSecret": "SECRET"}
                settings["sasl.oauthbearer.token.endpoint.url"] = TOKEN_ENDPOINT
                settings["sasl.login.callback.handler.class"] = (
                    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
                )
            options = " ".join(f'{name}="{value}"' for name, value in login.items())
            settings["sasl.jaas.config"] = f"{_LOGIN_MODULES[self.mechanism]} required {options};"
        return settings

    def client_properties(self) -> str:
        """Return the lines of `CLIENT_PROPERTIES`; "" if the commands name no such file."""
        return "".join(f"{key}={value}\n" for key, value in self.java().items())

    def placeholders(self) -> str:
        """Return a sentence about what a reader replaces in the settings; "" if there is nothing."""
        named = []
        if self.protocol.endswith("SSL"):
            named.append("ca.pem by the file with the authority of the listener's certificate")
        if self.needs_certificate:
            named.append("client.pem by the file with the client's certificate and key")
        if self.mechanism == OAUTHBEARER:
            named.append("ID, SECRET and ISSUER by the client's of the token issuer")
        elif self.mechanism:
            named.append("USER and PASSWORD by a login")
        return f"Replace {', '.join(named)}." if named else ""

    def hints(self, *, may_edit: bool = True, is_gateway: bool = False) -> str:
        """Return the sentences that go with `kcat` and `python`; "" if nothing needs to be said. `may_edit`:
        the reader's role lets them create topics in the console, which a gateway's console does not.
        """
        sentences = [self.placeholders()]
        if not self.creates_topics:
            if is_gateway:
                sentences.append("Create the topic greetings in the upstream cluster first: clients may not.")
            elif may_edit:
                sentences.append(
                    "Create the topic greetings first, on the console's page Topics: clients may not."
                )
            else:
                sentences.append(
                    "Clients may not create the topic greetings: ask an editor to create it first."
                )
        return " ".join(each for each in sentences if each)

    def librdkafka(self) -> dict[str, str]:
        """Return the settings of librdkafka, but for the address; empty if it needs none."""
        if self.is_plain:
            return {}
        settings = {"security.protocol": self.protocol}
        if self.protocol.endswith("SSL"):
            settings["ssl.ca.location"] = "ca.pem"
        if self.needs_certificate:
            settings |= {"ssl.certificate.location": "client.pem", "ssl.key.location": "client.pem"}
        if self.mechanism == OAUTHBEARER:
            prefix = "sasl.oauthbearer"
            settings |= {
                "sasl.mechanism": OAUTHBEARER,
                f"{prefix}.method": "oidc",
                f"{prefix}.client.id": "ID",
                f"{prefix}.client.secret": "SECRET",
                f"{prefix}.token.endpoint.url": TOKEN_ENDPOINT,
            }
        elif self.mechanism:
            settings |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": "USER",
                "sasl.password": "PASSWORD",
            }
        return settings

    def kcat(self, client_id: str) -> str:
        """Return a line for a POSIX shell that produces a record to the topic `greetings`."""
        words = ["kcat", "-b", self.address, "-X", f"client.id={client_id}"]
        for key, value in self.librdkafka().items():
            words += ["-X", f"{key}={value}"]
        return f"echo hello | {shlex.join([*words, '-t', 'greetings', '-P'])}"

    def python(self, client_id: str) -> str:
        """Return a program for confluent-kafka that does the same."""
        settings = {"bootstrap.servers": self.address, "client.id": client_id, **self.librdkafka()}
        return (
            "from confluent_kafka import Producer\n"
            f"producer = Producer({_python_dict(settings)})\n"
            'producer.produce("greetings", b"hello"); producer.flush()\n'
        )


def _python_dict(settings: Mapping[str, str]) -> str:
    """Format as Python source, in one line if it is short."""
    items = [f'"{key}": "{value}"' for key, value in settings.items()]
    line = f"{{{', '.join(items)}}}"
    return line if len(line) <= 80 else "".join(("{\n", *(f"    {item},\n" for item in items), "}"))
