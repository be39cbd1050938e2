"""`weir sign-metadata`: signs the common log of gateways that wrote it without a key, or with a former one.

Imported by the command line. Connects to the upstream cluster as a gateway with the same configuration does.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

import click
import trio

from broker.common.errors import ConfigError
from broker.config.load import load
from broker.config.table import BrokerConfig
from broker.gateway.sharing.sign_metadata import CannotSign, CommitRecord, Survey, sign
from broker.gateway.sharing.signing import ClusterKeys, SignedRecords
from broker.gateway.sharing.topic_log import METADATA_TOPIC, LogUnavailable, RecordTooLarge, TopicLog
from broker.gateway.upstream.client import UpstreamClient
from broker.gateway.upstream.cluster import UpstreamCluster
from broker.gateway.upstream.identity import ClusterIdentity
from broker.gateway.upstream.security import UpstreamSecurity
from broker.metadata.changes import ChangeKind
from broker.network.clock import TrioClock

CONNECTED_WITHIN_S: Final = 30.0
RETRY_S: Final = 0.5

ACCESS: Final = frozenset({ChangeKind.ADMIN_TOKEN, ChangeKind.USER_SCRAM})
"""Kinds of changes that let somebody in, which are shown one by one."""


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Overrides the file. Repeatable."
)
@click.option("--yes", is_flag=True, help="Adopts unsigned changes without a question.")
def sign_metadata(file: Path | None, overrides: tuple[str, ...], yes: bool) -> None:
    """Sign the gateways' common log of changes with the first key of gateway.cluster.keys.location.

    FILE is that of a gateway. Run it once after an upgrade from gateways without a key, while all of them are
    stopped; and after the gateways have a new first key, before the former one is removed, while they run.
    """
    try:
        config = load(file, overrides, os.environ).config
        config.gateway.check(config.upstream, "cluster")
        result = trio.run(_sign, config, ClusterKeys(config.gateway), yes)
    except (ConfigError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if isinstance(result, Exception):
        raise click.ClickException(str(result)) from result
    click.echo(f"{result} records were appended to {METADATA_TOPIC}; all changes that count are signed")


async def _sign(config: BrokerConfig, keys: ClusterKeys, yes: bool) -> int | Exception:
    """Return the number of records that were appended, or why the log cannot be signed."""
    clock = TrioClock()
    security = UpstreamSecurity(config.upstream, clock)
    expected = ClusterIdentity(Path(config.log.dirs[0])).read()
    cluster = UpstreamCluster(
        config.upstream, security, clock, expected_id=expected, on_cluster_id=lambda _found: None
    )
    client = UpstreamClient(config.upstream, security, cluster)

    def records() -> SignedRecords:
        return SignedRecords(METADATA_TOPIC, f"{config.broker.node_id}-sign-{uuid4().hex}", keys)

    async def confirm(found: Survey) -> None:
        if not await trio.to_thread.run_sync(_agrees, found, keys.first.id, yes):
            raise CannotSign("nothing was signed")

    async with trio.open_nursery() as nursery:
        await nursery.start(client.run)
        nursery.start_soon(cluster.run)
        log = TopicLog(METADATA_TOPIC, client, clock)
        try:
            await _connect(log)
            result: int | Exception = await sign(log, records, keys.first.id, confirm)
        except (CannotSign, LogUnavailable, RecordTooLarge) as error:
            result = error
        nursery.cancel_scope.cancel()
    return result


async def _connect(log: TopicLog) -> None:
    """Wait until the log can be read. Raises LogUnavailable."""
    until = trio.current_time() + CONNECTED_WITHIN_S
    while True:
        try:
            await log.end()
        except LogUnavailable:
            if trio.current_time() >= until:
                raise
            await trio.sleep(RETRY_S)
        else:
            return


def _agrees(found: Survey, key: str, yes: bool) -> bool:
    """Show what would be signed. Return whether to do it."""
    if not found.unsigned:
        if found.missing:
            click.echo(f"{len(found.missing)} commits will be signed with the key {key}")
        return True
    click.echo(f"These changes in {METADATA_TOPIC} are not signed:")
    for line in _summary(found.unsigned):
        click.echo(f"  {line}")
    click.echo(
        "All gateways will believe them. Whoever could produce to the cluster could have written them: sign "
        "only what you know."
    )
    return yes or click.confirm(f"Sign them with the key {key}?")


def _summary(unsigned: Sequence[CommitRecord]) -> list[str]:
    """Return how many changes there are of each kind, and each one that lets somebody in."""
    counts = Counter(change.kind for each in unsigned for change in each.commit.changes)
    lines = [f"{count} x {kind.value}" for kind, count in sorted(counts.items())]
    for each in unsigned:
        for change in each.commit.changes:
            if change.kind in ACCESS:
                actor = each.commit.actor
                done = "removed" if change.new is None else "set"
                who = f"{actor.name!r} from {actor.address or 'here'} through {actor.origin.value}"
                what = f"{change.kind.value} {change.entity!r}"
                lines.append(f"row {each.commit.first}: {what} {done} by {who}")
    return lines
