"""The task of a gateway whose reports are signed: what others write has no part in its shares."""

import logging

import pytest
import trio

from broker.common.slices import run_through
from broker.config.sections import GatewayConfig
from broker.gateway.sharing.connection_lists import ConnectionLists, question_key
from broker.gateway.sharing.member import SharingMember
from broker.gateway.sharing.report import WHOLE, Report, write_report
from broker.gateway.sharing.signing import FRESH_MS, ClusterKeys, Refusal, SignedRecords
from broker.gateway.sharing.task import SharingTask
from broker.network.clock import TrioClock
from broker.quotas.client_quotas import ClientQuotas
from tests.support.memory_log import MemoryLog, MemoryTopic

KEYS = ClusterKeys(GatewayConfig(cluster_keys="1" * 32))


class Signing:
    def __init__(self, name: str, topic: MemoryTopic) -> None:
        self.member = SharingMember(name, ClientQuotas(shared=True))
        self.log = MemoryLog(topic)
        clock = TrioClock()
        self.records = SignedRecords("__weir_shares", name, KEYS)
        self.lists = ConnectionLists(name, lambda: (), lambda: (), self.log, clock, self.records)
        self.task = SharingTask(self.member, self.log, clock, self.records, lists=self.lists)
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        with self.scope:
            await self.task.run()


@pytest.fixture
def topic() -> MemoryTopic:
    return MemoryTopic()


@pytest.fixture
def start(topic, nursery):
    def make(name: str) -> Signing:
        gateway = Signing(name, topic)
        nursery.start_soon(gateway.run)
        return gateway

    return make


def gateways(gateway: Signing) -> list[str]:
    return sorted(gateway.member.table.gateways)


async def test_a_forged_report_divides_no_limit(autojump_clock, start, topic, caplog):
    gateway, other = start("a"), start("b")
    for number in range(5):
        await trio.sleep(1)
        topic.append(b"ghost", run_through(write_report(Report("ghost", number))))
        topic.append(question_key("ghost"), b"{}")
    await trio.sleep(1)
    assert gateways(gateway) == gateways(other) == ["a", "b"]
    assert gateway.records.refused.total == {Refusal.UNSIGNED: 10}
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warned[0] == "a report is not believed"


async def test_a_forged_farewell_takes_no_share(autojump_clock, start, topic):
    gateway, _ = start("a"), start("b")
    await trio.sleep(5)
    topic.append(b"b", run_through(write_report(Report("b", 1_000, leaving=True))))
    await trio.sleep(0.1)
    assert gateways(gateway) == ["a", "b"]


async def test_reports_of_a_dead_gateway_do_not_bring_it_back(autojump_clock, start, topic):
    gateway, dead = start("a"), start("b")
    await trio.sleep(5)
    dead.scope.cancel()
    await trio.sleep(10)
    assert gateways(gateway) == ["a"] and gateway.member.other_share == WHOLE
    genuine = [entry for entry in topic.entries if entry.key == b"b"]
    for entry in genuine:
        await trio.sleep(1)
        topic.append(entry.key, entry.value)
    await trio.sleep(1)
    assert gateways(gateway) == ["a"] and gateway.member.other_share == WHOLE
    assert gateway.records.refused.total == {Refusal.REPLAYED: len(genuine)}


async def test_nor_at_a_gateway_that_has_never_heard_of_it(autojump_clock, start, topic):
    """The topic has forgotten the reports, and the gateway has run for a minute."""
    dead = start("b")
    await trio.sleep(5)
    dead.scope.cancel()
    await trio.sleep(1)
    genuine = [entry for entry in topic.entries if entry.key == b"b"]
    topic.entries.clear()
    gateway = start("a")
    await trio.sleep(FRESH_MS / 1_000 + 2)
    for entry in genuine:
        await trio.sleep(1)
        topic.append(entry.key, entry.value)
    await trio.sleep(1)
    assert gateways(gateway) == ["a"]
    assert gateway.records.refused.total == {Refusal.REPLAYED: len(genuine)}


async def test_in_a_log_that_begins_again_gateways_believe_each_other(autojump_clock, start, topic):
    """Its first records are of writers that have read less than a minute ago."""
    gateway, other = start("a"), start("b")
    await trio.sleep(FRESH_MS / 1_000 + 5)
    topic.cut(0)
    await trio.sleep(10)
    third = start("c")
    await trio.sleep(5)
    for each in (gateway, other, third):
        assert gateways(each) == ["a", "b", "c"]
        assert not each.member.has_expired and not each.records.refused.total


async def test_what_was_there_before_the_start_is_not_counted(autojump_clock, start, topic):
    topic.append(b"old", run_through(write_report(Report("old", 1))))
    gateway = start("a")
    await trio.sleep(2)
    assert gateways(gateway) == ["a"] and not gateway.records.refused.total
