"""Who may connect and what they may change. For broker.security and broker.house."""

from dataclasses import dataclass, field

from broker.config.kinds import SECRET, TEXT, integer, list_of, one_of
from broker.config.setting import ListenerRoom, setting


@dataclass(frozen=True, slots=True)
class SecurityConfig(ListenerRoom):
    """`plain_jaas` holds (listener name in capitals, value) pairs. `admin_token` comes from the environment
    (WEIR_ADMIN_TOKEN or WEIR_ADMIN_TOKEN_FILE), never from the file.
    """

    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        ("PLAIN",),
        list_of(
            one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512").read,
            "a list of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
            least=1,
        ),
        "SASL mechanisms of the SASL listeners.",
        kafka_default="GSSAPI",
        why="PLAIN is what a listener's own users log in with; SCRAM needs users that somebody has made.",
        dynamic=True,
        per_broker=True,
        listener_too=True,
    )
    plain_jaas: tuple[tuple[str, str], ...] = setting(
        "plain.sasl.jaas.config",
        (),
        SECRET,
        "The users of a listener: `org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_<name>="<password>" ...;`. <name> in the key is the listener, in small letters.',
        per_listener=True,
        dynamic=True,
        per_broker=True,
    )
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        524_288,
        integer(1),
        "The largest request before a login has succeeded.",
        unit="bytes",
    )
    super_users: tuple[str, ...] = setting(
        "super.users",
        (),
        list_of(TEXT.read, "a list of User:<name>, separated by semicolons", separator=";"),
        "Principals that may change everything through the Kafka protocol, whatever wire.role says.",
    )
    wire_role: str = setting(
        "wire.role",
        "admin",
        one_of("viewer", "editor", "admin"),
        "What other Kafka clients may change: nothing; quotas, topics and their settings; everything. Kafka "
        "without an authorizer is `admin`.",
        ours=True,
    )
    admin_token: str | None = field(default=None, repr=False)
