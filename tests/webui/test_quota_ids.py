"""The id of a rule says its entity, in letters that a path may hold."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.commands import EntityPairs
from webui.quota_ids import BadId, entity_of, id_of


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ((("user", "alice"),), "user=alice"),
        ((("user", None),), "user"),
        ((("client-id", "app"),), "client-id=app"),
        ((("user", "alice"), ("client-id", None)), "user=alice,client-id"),
        ((("user", None), ("client-id", "app")), "user,client-id=app"),
        ((("ip", "10.0.0.7"),), "ip=10.0.0.7"),
        ((("ip", "fe80::1"),), "ip=fe80::1"),
        ((("user", "User:a@b-c_d.e"),), "user=User:a@b-c_d.e"),
        ((("user", "a/b,c=d~%? "),), "user=a~2fb~2cc~3dd~7e~25~3f~20"),
        ((("user", "ä😀"),), "user=~c3~a4~f0~9f~98~80"),
        ((("client-id", "<default>"),), "client-id=~3cdefault~3e"),
        ((("user", ".."),), "user=.."),
    ],
)
def test_an_entity_and_its_id(entity: EntityPairs, text: str) -> None:
    assert id_of(entity) == text and entity_of(text) == entity


@given(
    user=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    client_id=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
def test_every_name_comes_back_and_needs_no_other_escape(user: str | None, client_id: str | None) -> None:
    entity: EntityPairs = (("user", user), ("client-id", client_id))
    text = id_of(entity)
    assert entity_of(text) == entity
    assert quote(text, safe="=,:@") == text and unquote(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "alice",
        "group=a",
        "user=",
        "user=a,",
        "user=a,user=b",
        "client-id=a,user=b",
        "USER=a",
        "user=~4",
        "user=~zz",
        "user=~61",
        "user=~2F",
        "user=~ff",
        "user=a b",
        "user=a=b",
        "user=ä",
        "user=\ud800",
    ],
)
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(BadId):
        entity_of(text)
