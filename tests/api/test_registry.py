"""The registered APIs and their documentation."""

import re

from broker.api.registry import Api, load
from broker.api.support import KAFKA, PATH, render
from broker.protocol.api_key import NAMES, ApiKey
from broker.protocol.codec import known_versions
from tests.support.each import for_each

SERVED = list(load())

SHARE_GROUP_STATE = range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY + 1)
"""The keys of the share coordinator, whose APIs are one file."""


every_api = for_each(SERVED, lambda entry: NAMES[entry.key])


@every_api
def test_its_file_is_named_after_its_key(entry: Api) -> None:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", NAMES[entry.key]).lower()
    if entry.key in SHARE_GROUP_STATE:
        name, first = "share_group_state", min(SHARE_GROUP_STATE)
    else:
        first = entry.key
    assert entry.handle.__module__ == f"broker.api.a{first:02}_{name}"


@every_api
def test_the_codec_has_all_of_its_versions(entry: Api) -> None:
    first, last = known_versions(entry.key)
    assert first <= entry.min_version <= entry.max_version <= last


@every_api
def test_it_serves_no_version_that_kafka_does_not(entry: Api) -> None:
    first, _, last = KAFKA[entry.key].partition("-")
    assert int(first) <= entry.min_version
    assert entry.max_version <= int(last or first)


@every_api
def test_its_header_names_it_and_says_its_versions(entry: Api) -> None:
    assert entry.doc.startswith(f"{NAMES[entry.key]}: ")
    first, last = entry.min_version, entry.max_version
    versions = f"Version {first}" if first == last else f"Versions {first}-{last}"
    assert f"\n\n{versions}" in entry.doc


def test_no_api_is_announced_from_below_but_produce() -> None:
    """KAFKA-18659: an old librdkafka takes Produce for unsupported unless it begins at 0."""
    below = [
        (NAMES[each.key], each.advertised_min) for each in SERVED if each.advertised_min < each.min_version
    ]
    assert below == [("Produce", 0)]


def test_only_three_apis_may_be_called_before_a_login() -> None:
    before = [NAMES[each.key] for each in SERVED if each.before_login]
    assert before == ["SaslHandshake", "ApiVersions", "SaslAuthenticate"]


def test_the_committed_reference_is_what_the_registry_makes() -> None:
    assert PATH.read_text(encoding="utf-8") == render(load()), "run python -m broker.api.support"


def test_every_api_of_kafka_is_either_served_or_listed_as_not() -> None:
    text = render(load())
    assert all(f"| {key} | {NAMES[key]} |" in text or f"- {NAMES[key]} ({key})" in text for key in KAFKA)
