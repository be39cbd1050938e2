"""Random cases for a comparison with Kafka's own classes, and our results in the form of KafkaResults.java.

Used by test_against_kafka. A case is plain JSON. Names are drawn from few, so that the members of a group
share processes and state, and hashes collide.
"""

import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.common.errors import ApiError, ErrorCode
from broker.common.slices import run_through
from broker.coordinator.group.streams.assignor import TaskMember, Tasks, TaskSets, assign
from broker.coordinator.group.streams.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    configure,
    endpoint_partitions,
)
from broker.coordinator.group.streams.java_order import computed_order, hash_map_order
from broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology

Case = dict[str, Any]
COLLIDING: Final = ("AaAa", "AaBB", "BBAa", "BBBB", "AaC#", "BBC#", "C#Aa", "C#BB", "C#C#")
"""Texts of one hash: Java's of "Aa", "BB" and "C#" is the same."""


def order_case(seed: int) -> Case:
    """Keys of a hash map. At most four have one hash: a long bin may become a tree."""
    chance = random.Random(seed)
    keys = [_name(chance) for _ in range(chance.choice((0, 3, 11, 12, 13, 40, 120)))]
    keys += chance.sample(COLLIDING, chance.randrange(5))
    chance.shuffle(keys)
    keys += chance.choices(keys, k=3) if keys else []
    return {
        "kind": "order",
        "by": chance.choice(("put", "compute")),
        "capacity": chance.choice((0, 1, 2, 5, 16, 17, 100)),
        "keys": keys,
    }


def _name(chance: random.Random) -> str:
    return "".join(chance.choice("abcXYZ09-é\U0001f600\uff21") for _ in range(chance.randrange(1, 9)))


def assign_case(seed: int, size: int = 1) -> Case:
    """A group without history, one that has lost and won members, or one whose members report anything.
    `size` multiplies members and tasks.
    """
    chance = random.Random(seed)
    subtopologies = [
        [each, size * chance.choice((1, 2, 3, 5, 8, 20)), chance.random() < 0.6]
        for each in chance.sample(
            ("0", "1", "2", "3", "10", "11", "a\uff21", "a\U0001f600"), chance.randint(1, 5)
        )
    ]
    standbys = chance.choice((0, 0, 1, 1, 2, 3))
    processes = [f"process-{chance.randrange(1000)}" for _ in range(size * chance.randint(1, 9))]
    case = {
        "kind": "assign",
        "members": _members(chance, size * chance.choice((1, 2, 3, 6, 15, 30)), processes),
        "subtopologies": subtopologies,
        "standbys": standbys,
    }
    history = chance.randrange(4)
    if history == 3:
        _report_anything(chance, case)
    for _ in range(history % 3):
        case = _next_epoch(chance, case, processes)
    return case


def _members(chance: random.Random, count: int, processes: list[str]) -> list[Case]:
    ids = [
        chance.choice(COLLIDING[:4]) if chance.random() < 0.1 else f"member-{chance.randrange(10_000)}"
        for _ in range(count)
    ]
    return [
        {"id": each, "process": chance.choice(processes), "active": {}, "standby": {}, "offsets": {}}
        for each in dict.fromkeys(ids)
    ]


def _next_epoch(chance: random.Random, case: Case, processes: list[str]) -> Case:
    """The members have what they were assigned; some are gone, some are new, some have old state."""
    assigned = our_result(case)
    members = [each for each in case["members"] if chance.random() < 0.75]
    for each in members:
        each["active"], each["standby"] = assigned[each["id"]]
        each["offsets"] = _some_offsets(chance, case, 0.3 if chance.random() < 0.5 else 0)
    known = {each["id"] for each in members}
    members += [each for each in _members(chance, chance.randint(0, 6), processes) if each["id"] not in known]
    subtopologies = [list(each) for each in case["subtopologies"]]
    if chance.random() < 0.3:
        subtopologies[0][1] = chance.randint(1, 10)
    standbys = case["standbys"] if chance.random() < 0.7 else chance.randrange(3)
    members = members or _members(chance, 1, processes)
    return case | {"members": members, "subtopologies": subtopologies, "standbys": standbys}


def _report_anything(chance: random.Random, case: Case) -> None:
    """Also tasks that other members have, and that do not exist."""
    known = [*case["subtopologies"], ["gone", 3, True]]
    for each in case["members"]:
        for kind in ("active", "standby"):
            for subtopology_id, count, _ in known:
                some = [at for at in range(count + 2) if chance.random() < 0.2]
                if some:
                    each[kind][subtopology_id] = some
        each["offsets"] = _some_offsets(chance, case, 0.3)


def _some_offsets(chance: random.Random, case: Case, likely: float) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for subtopology_id, count, _ in case["subtopologies"]:
        for at in range(count + 1):
            if chance.random() < likely:
                offset = chance.choice((0, 1, 5, 5, 100, 2**62, -1))
                found.setdefault(subtopology_id, {})[str(at)] = offset
    return found


def configure_case(seed: int) -> Case:
    """A topology of up to six subtopologies, and topics of which some are missing or have wrong counts."""
    chance = random.Random(seed)
    sources = [f"source-{at}" for at in range(4)]
    repartition = [f"app-{_letter(chance)}-repartition-{at}" for at in range(chance.randint(0, 5))]
    common = chance.choice((0, 1, 4))
    topics = {name: common or chance.choice((1, 2, 3, 4, 6)) for name in sources if chance.random() < 0.97}
    fixed = {name: chance.choice((1, 3, 4)) for name in repartition if chance.random() < 0.25}
    ids = chance.sample([*map(str, range(30)), *COLLIDING], chance.randint(1, 6))
    subtopologies = [
        _subtopology(chance, each, sources, repartition, fixed, likely=0.7 if len(ids) < 3 else 0.45)
        for each in ids
    ]
    wild = chance.random() < 0.2
    changelogs = [info["name"] for each in subtopologies for info in each["stateChangelogTopics"]]
    for name in dict.fromkeys([*repartition, *changelogs]):
        if chance.random() < (0.3 if wild else 0.02):
            topics[name] = chance.choice((1, 2, 3, 4, 6))
    case = {
        "kind": "configure",
        "topology": {"epoch": seed % 3, "subtopologies": subtopologies},
        "topics": topics,
        "active": {each: chance.sample(range(7), 2) for each in ids if chance.random() < 0.6},
        "standby": {each: chance.sample(range(7), 2) for each in ids if chance.random() < 0.4},
    }
    if not wild:
        # Create what is missing, most of the time: then the topology is ready.
        created = our_result(case).get("create") or ()
        if chance.random() < 0.6:
            topics |= {name: count for name, count, *_ in created}
        elif created and chance.random() < 0.5:
            topics[created[0][0]] = created[0][1] + 1
    return case


def _letter(chance: random.Random) -> str:
    return chance.choice("abcdefgh")


def _subtopology(
    chance: random.Random,
    subtopology_id: str,
    sources: list[str],
    repartition: list[str],
    fixed: Mapping[str, int],
    likely: float,
) -> Case:
    own = [each for each in sources if chance.random() < likely / 2]
    read = [each for each in repartition if chance.random() < 0.35]
    if not own and not read and chance.random() < 0.95:
        own = [chance.choice(sources)]
    letters = subtopology_id.replace("#", ".")
    changelogs = [f"app-{letters}-changelog-{at}" for at in range(chance.choice((0, 0, 1, 2)))]
    if chance.random() < 0.05:
        changelogs.append("app-shared-changelog")
    groups = []
    for _ in range(chance.choice((0, 0, 1, 2))):
        groups.append(
            {
                "sourceTopics": [at for at in range(len(own)) if chance.random() < 0.5],
                "sourceTopicRegex": [],
                "repartitionSourceTopics": [at for at in range(len(read)) if chance.random() < 0.7],
            }
        )
    configs = [{"key": "retention.ms", "value": "5"}, {"key": "cleanup.policy", "value": "compact"}]
    return {
        "subtopologyId": subtopology_id,
        "sourceTopics": own,
        "sourceTopicRegex": [],
        "stateChangelogTopics": [
            _info(each, 0, chance.choice((0, 3)), configs[: chance.randrange(3)]) for each in changelogs
        ],
        "repartitionSinkTopics": [each for each in repartition if chance.random() < likely],
        "repartitionSourceTopics": [
            _info(each, fixed.get(each, 0) + (chance.random() < 0.02), chance.choice((0, 3)), [])
            for each in read
        ],
        "copartitionGroups": groups,
    }


def _info(name: str, partitions: int, replication_factor: int, configs: list[dict[str, str]]) -> Case:
    return {
        "name": name,
        "partitions": partitions,
        "replicationFactor": replication_factor,
        "topicConfigs": configs,
    }


# Our results


def our_result(case: Case) -> Any:
    match case["kind"]:
        case "assign":
            return _assigned(case)
        case "configure":
            return _configured(case)
    order = hash_map_order if case["by"] == "put" else computed_order
    return run_through(order(case["keys"], case["capacity"]))


def _assigned(case: Case) -> dict[str, list[dict[str, list[int]]]]:
    members = {
        each["id"]: TaskMember(
            each["id"],
            process_id=each["process"],
            assigned=TaskSets(_tasks(each["active"]), _tasks(each["standby"])),
            task_offsets={
                subtopology_id: {int(at): offset for at, offset in offsets.items()}
                for subtopology_id, offsets in each["offsets"].items()
            },
        )
        for each in case["members"]
    }
    subtopologies = {
        each: ConfiguredSubtopology(
            count, state_changelog_topics={"c": TopicInfo("c", 1)} if stateful else {}
        )
        for each, count, stateful in case["subtopologies"]
    }
    found = run_through(assign(members, ConfiguredTopology(0, 0, subtopologies), case["standbys"]))
    assert all(not each.warmup for each in found.values())
    return {each: [_plain_tasks(sets.active), _plain_tasks(sets.standby)] for each, sets in found.items()}


def _tasks(tasks: Mapping[str, list[int]]) -> Tasks:
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items()}


def _plain_tasks(tasks: Tasks) -> dict[str, list[int]]:
    return {subtopology_id: sorted(partitions) for subtopology_id, partitions in tasks.items()}


class Facts(NamedTuple):
    """A topic that exists."""

    name: str
    topic_id: bytes
    partitions: int


def existing(counts: Mapping[str, int]) -> dict[str, Facts]:
    return {name: Facts(name, name.encode()[:16].ljust(16), count) for name, count in counts.items()}


THROWN: Final = {ErrorCode.STREAMS_INVALID_TOPOLOGY: "StreamsInvalidTopologyException"}


def _configured(case: Case) -> dict[str, Any]:
    topics = existing(case["topics"])
    try:
        topology = run_through(configure(read_topology(case["topology"]), topics, 7))
    except ApiError as error:
        return {"thrown": THROWN[error.code], "message": error.message}
    assert (topology.topology_epoch, topology.metadata_hash) == (case["topology"]["epoch"], 7)
    found = {
        "status": None if topology.error is None else int(topology.error.code),
        "detail": None if topology.error is None else topology.error.detail,
        "subtopologies": None
        if topology.subtopologies is None
        else [
            [
                subtopology_id,
                each.number_of_tasks,
                list(each.source_topics),
                list(each.repartition_sink_topics),
                _plain_topics(each.repartition_source_topics),
                _plain_topics(each.state_changelog_topics),
            ]
            for subtopology_id, each in topology.subtopologies.items()
        ],
        "create": [
            [each.name, each.partitions, each.replication_factor or -1, dict(each.configs)]
            for each in topology.internal_topics_to_create.values()
        ],
    }
    if topology.is_ready:
        served = run_through(endpoint_partitions(case["active"], case["standby"], topology, topics))
        found["endpoint"] = [
            sorted({f"{topic} {list(partitions)}" for topic, partitions in each}) for each in served
        ]
    return found


def _plain_topics(topics: Mapping[str, TopicInfo]) -> list[Any]:
    return [
        [name, each.partitions, each.replication_factor, dict(each.configs)]
        for name, each in sorted(topics.items())
    ]


def read_topology(stated: Case) -> Topology:
    return Topology(
        stated["epoch"],
        tuple(
            Subtopology(
                each["subtopologyId"],
                tuple(each["sourceTopics"]),
                tuple(each["sourceTopicRegex"]),
                tuple(map(_topic_info, each["stateChangelogTopics"])),
                tuple(each["repartitionSinkTopics"]),
                tuple(map(_topic_info, each["repartitionSourceTopics"])),
                tuple(
                    CopartitionGroup(
                        tuple(group["sourceTopics"]),
                        tuple(group["sourceTopicRegex"]),
                        tuple(group["repartitionSourceTopics"]),
                    )
                    for group in each["copartitionGroups"]
                ),
            )
            for each in stated["subtopologies"]
        ),
    )


def _topic_info(stated: Case) -> TopicInfo:
    configs = tuple((each["key"], each["value"]) for each in stated["topicConfigs"])
    return TopicInfo(stated["name"], stated["partitions"], stated["replicationFactor"], configs)
