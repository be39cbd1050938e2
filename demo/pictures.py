"""Takes the pictures of docs/console.md: `python -m demo.pictures [FOLDER]`, some two minutes.

`make pictures` calls it. A broker of its own, the tenants of the demo under their rules, and every page of
the console in Chromium. WebP, as PNG of the same would be five times as large. Insights needs tables of some
days, which the tenants have not made: they are invented, or `--warehouse` says where there are some.
"""

import base64
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import click
from playwright.sync_api import sync_playwright

from broker.common.principal import ANONYMOUS
from demo import scene
from demo.invented import write_tables
from demo.picture_list import LEFT_OUT, MENUS, OF_INSIGHTS, shown_menu
from demo.place import Place, own_broker
from webui.pages import PAGES

BOOTSTRAP: Final = "127.0.0.1:19192"
CONSOLE: Final = "127.0.0.1:18180"
FREE_S: Final = 15.0
UNDER_RULES_S: Final = 75.0
SETTLED_MS: Final = 2_500
DESK: Final = {"width": 1280, "height": 800}
PHONE: Final = {"width": 390, "height": 844}
QUERIES: Final = {"explain": f"?user={ANONYMOUS}&client_id={scene.GREEDY}"}
"""What a page is about, by its key."""

RECORDS: Final = (f"/topics/{scene.TOPIC}?start=latest&limit=20", "records")

AUTHORIZER: Final = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
"""For the page of ACLs; the tenants of the demo have no logins."""

QUALITY: Final = 82


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("docs/images"))
@click.option("--warehouse", type=click.Path(path_type=Path, exists=True), help="Of `weir pipeline`.")
@click.option("--only", multiple=True, metavar="PAGE", help="Of pages, by their keys; may be given often.")
def main(folder: Path, warehouse: Path | None, only: tuple[str, ...]) -> None:
    """Every page of the console while the demo runs."""
    with tempfile.TemporaryDirectory(prefix="weir-tables-") as made:
        if warehouse is None:
            warehouse = Path(made)
            write_tables(warehouse)
        settings = (*AUTHORIZER, f"insights.warehouse={warehouse.absolute()}")
        with own_broker(BOOTSTRAP, CONSOLE, *settings) as place:
            _take(place, folder, only)


def _take(place: Place, folder: Path, only: tuple[str, ...]) -> None:
    if not only:
        _take_in(place, folder, [("/", "first-run")], color_scheme="light")
    scene.add_users_and_acls(place)
    scene.add_alerts(place)
    with scene.topic(place), scene.asked_for_metrics(place), scene.at_work(scene.tenants_for(place)):
        time.sleep(FREE_S)
        with scene.limited(place), scene.in_transaction(place):
            time.sleep(UNDER_RULES_S)
            pages = [
                (page.path + QUERIES.get(page.key, ""), page.key)
                for page in PAGES
                if page.key not in LEFT_OUT and (not only or page.key in only)
            ]
            if not only or "records" in only:
                pages.append(RECORDS)
            if any(name == "insights" for _, name in pages):
                pages += [(f"/insights?view={view}&days=30", f"insights-{view}") for view in OF_INSIGHTS]
            _take_in(place, folder, pages, color_scheme="dark")
            _note_menus(folder, only)
            if only:
                return
            small = [("/", "phone-overview"), ("/throttled", "phone-throttled")]
            _take_in(place, folder, small, viewport=PHONE, color_scheme="light")


def _note_menus(folder: Path, only: tuple[str, ...]) -> None:
    path = folder / MENUS
    noted = json.loads(path.read_text(encoding="utf-8")) if only and path.exists() else {}
    noted |= {
        page.key: shown_menu(page)
        for page in PAGES
        if page.key not in LEFT_OUT and (not only or page.key in only)
    }
    path.write_text(json.dumps(noted, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _take_in(place: Place, folder: Path, pages: list[tuple[str, str]], **look: Any) -> None:
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(**{"viewport": DESK, **look}).new_page()
        page.goto(place.url)
        for path, name in pages:
            page.goto(f"http://{place.console}{path}")
            page.wait_for_timeout(SETTLED_MS)
            _save(page, folder / f"console-{name}.webp")
        browser.close()


def _save(page: Any, path: Path) -> None:
    """What is in the window, and no more: nobody reads a picture of three windows' height."""
    session = page.context.new_cdp_session(page)
    picture = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    path.write_bytes(base64.b64decode(picture["data"]))
    session.detach()
    click.echo(f"{path} {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
