"""Every page of the menu at a gateway is a page, and what it shows is answered."""

from pathlib import Path

import httpx

from broker.controller.commands import CreateAcls, NewTopic
from broker.metadata.actor import BROKER_ITSELF
from tests.gateway.contents.test_access import ACL, AUTHORIZER, OPEN
from tests.gateway.contents.world import World, world
from webui.live.lag_history import LagHistory
from webui.live.topic_rates import TopicRates
from webui.pages import UPSTREAMS, UPSTREAMS_OWN, menu
from webui.rest.events import live_tables
from webui.rest.routes import ROUTES

NOT_THERE = {
    "GET /api/v1/delegation-tokens",  # a login sees its own tokens only
}


async def signed_in(found: World) -> httpx.Headers:
    """Return the headers with which a browser that has logged in asks."""
    console = found.gateway.started.console
    assert console is not None
    headers = {
        "Host": httpx.URL(console.url).netloc.decode(),
        "Sec-Fetch-Site": "same-origin",
        "Authorization": "",
    }
    answer = await found.http.post("/login", json={"token": console.token}, headers=headers)
    assert answer.status_code == 200, answer.text
    cookie = answer.headers["Set-Cookie"].partition(";")[0]
    return httpx.Headers({**headers, "Cookie": cookie})


async def test_every_page_of_the_menu_is_there(tmp_path: Path) -> None:
    async with world(tmp_path) as found:
        headers = await signed_in(found)
        pages = [page for entry in menu(is_gateway=True) for page in entry.pages]
        assert not {page.key for page in pages} & set(UPSTREAMS)
        for page in pages:
            answer = await found.http.get(page.path, headers=headers)
            assert answer.status_code == 200, page.path
            assert f"js/{page.key}.js" in answer.text and UPSTREAMS_OWN not in answer.text


async def test_every_list_is_answered_with_its_reading(tmp_path: Path) -> None:
    async with world(tmp_path, of_broker=(AUTHORIZER, OPEN, "super.users=User:ANONYMOUS")) as found:
        await found.create(NewTopic("orders", 1, 1))
        await found.broker.server.control.apply(CreateAcls((ACL,)), BROKER_ITSELF)
        refused = []
        for route in ROUTES:
            if route.method == "GET" and "{" not in route.path and not route.path.endswith("/events"):
                answer = await found.http.get(route.path)
                if answer.status_code == 404:
                    refused.append(route.request)
        assert {each for each in refused if "/insights" not in each} == NOT_THERE
        views = found.gateway.server.views
        names = set(live_tables(views, lambda: 0, LagHistory(), TopicRates(views.topics)))
        assert {"topics", "groups", "transactions", "acls", "scram-users"} <= names
        for path in ("topics", "groups", "transactions", "acls", "scram-users"):
            assert (await found.get(path))["upstream"]["read_at"] is not None
        node_id = found.broker.server.config.broker.node_id
        page = await found.get(f"upstream/nodes/{node_id}/configs?limit=1000")
        rows = {row["name"]: row for row in page["items"]}
        assert rows["super.users"]["source"] == "file" and len(rows) > 200
        assert "no node 77" in (await found.get("upstream/nodes/77/configs", 404))["detail"]
