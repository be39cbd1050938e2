"""Client telemetry behind the console of a test: the real telemetry state and planner, with a metadata log in
memory.
"""

from broker.common.slices import run_through
from broker.config.sections import TelemetryConfig
from broker.controller.commands import ConfigAlteration, IncrementalAlterConfigs, ResourceOutcome
from broker.controller.configs import plan_alter_configs
from broker.metadata.actor import Actor
from broker.telemetry.instance import ClientInstance, TelemetryClient
from broker.telemetry.latest import Point, PushedPoints, Shape
from broker.telemetry.state import Telemetry
from broker.telemetry.subscription import read_subscription
from broker.views.client_telemetry import ClientTelemetry
from tests.controller.world import World


class TelemetryWorld:
    def __init__(self) -> None:
        self.world = World()
        self.state = Telemetry(TelemetryConfig())
        self.views = ClientTelemetry(lambda: self.world.image, self.state)

    def configure(
        self, alteration: ConfigAlteration, actor: Actor, *, validate_only: bool = False
    ) -> ResourceOutcome:
        command = IncrementalAlterConfigs((alteration,), validate_only)
        (outcome,) = self.world.do(plan_alter_configs, command, actor.role)
        entry = self.world.image.client_metrics.get(alteration.resource.name)
        if outcome.ok and not validate_only:
            subscription = (
                None if entry is None else run_through(read_subscription(entry.name, entry.configs))
            )
            self.state.manager.on_metadata_update({alteration.resource.name: subscription})
        return outcome

    def join(self, client_id: str, now_ms: int = 0, software: str = "apache-kafka-java") -> ClientInstance:
        """A client asks what to push."""
        number = len(self.state.manager) + 2
        instance_id = number.to_bytes(16, "big")
        client = TelemetryClient(
            f"c-{number}", client_id, software, "4.1.0", f"10.0.0.{number}", 50_000, "alice"
        )
        _, instance = run_through(self.state.manager.get(instance_id, client, now_ms))
        return instance

    def say(self, instance: ClientInstance, wall_ms: int, **figures: float) -> None:
        """A client pushes gauges."""
        points = [
            Point(
                f"org.{name}",
                (("node_id", "1"),),
                f"org_{name}",
                (("node_id", "1"),),
                Shape.GAUGE,
                value,
                False,
            )
            for name, value in figures.items()
        ]
        self.state.latest.take(instance.id, PushedPoints(points, 0), wall_ms)
        self.state.manager.exported(instance, 100, 1.0, 0, wall_ms)
