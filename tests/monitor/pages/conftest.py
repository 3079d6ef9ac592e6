"""A monitor with hostile names, two versions, late labels and alerts; served, and looked at in Chromium."""

import shutil
import threading
import time
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient
from monitor_data import SECRET, labels_json, rows_json, run_due_jobs, source_npz

from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.run.app import create_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Texts that would run, break out or turn the page around if they were not escaped.
HOSTILE = [
    "<script>window.hacked=1</script>",
    '"><img src=x onerror=window.hacked=1>',
    "{{ 7*7 }}' onmouseover='window.hacked=1",
    "\u202eright to left</title></svg>",
]
CLASSES = ["<b>one</b>", 'two" onclick="window.hacked=1', "three"]
DAYS = 6


def fill(store):
    """Six days: v1, from the fifth on v2 beside it; the first three labelled; a limit exceeded, a webhook away."""
    with TestClient(create_app(store), base_url="http://127.0.0.1") as client:
        for version in ("v1", "v2"):
            body = source_npz(classes=CLASSES)
            client.put(f"/v1/models/shop/versions/{version}/source", content=body).raise_for_status()
        wanted = {
            "segments": ["camera"],
            "replicates": 20,
            "metrics": ["f1", "class_error"],
            "limits": {"error": 0.05, "rise": 0.9},
            "webhook": {"url": "http://127.0.0.1:9/hook", "secret": SECRET},
        }
        client.put("/v1/models/shop/settings", json=wanted).raise_for_status()
        for day in range(DAYS):
            for version in ("v1", "v2")[: 1 + (day >= 4)]:
                rows, labels = rows_json(
                    80,
                    seed=day,
                    day=DAYS + 1 - day,
                    prefix=f"{version}-{day}-",
                    version=version,
                    segments=lambda i: {"camera": HOSTILE[i % len(HOSTILE)]},
                )
                client.post("/v1/models/shop/predictions", json={"rows": rows}).raise_for_status()
                if day < 3:
                    named = [{**one, "label": CLASSES[one["label"]]} for one in labels_json(rows, labels)]
                    client.post("/v1/models/shop/labels", json={"labels": named}).raise_for_status()
        rows, _ = rows_json(20, day=2, prefix="w")
        client.put("/v1/models/waits/settings", json={}).raise_for_status()
        client.post("/v1/models/waits/predictions", json={"rows": rows}).raise_for_status()
        run_due_jobs(store)


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A store with the models `shop` and `waits`; tests must not change it."""
    store = open_store(tmp_path_factory.mktemp("shop"))
    fill(store)
    yield store
    store.close()


@pytest.fixture(scope="session")
def pages(shop):
    with TestClient(create_app(shop), base_url="http://127.0.0.1", follow_redirects=False) as client:
        yield client


@pytest.fixture
def empty_client(tmp_path):
    """An empty store, and its pages."""
    store = open_store(tmp_path / "fresh")
    with TestClient(create_app(store), base_url="http://127.0.0.1", follow_redirects=False) as client:
        client.store = store
        yield client
    store.close()


def served(store):
    """The pages on a free port of this machine, until the block ends."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(create_app(store), port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 120
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    assert server.started
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="session")
def site(shop):
    yield from served(shop)


@pytest.fixture
def empty_site(empty_client):
    yield from served(empty_client.store)


@pytest.fixture(scope="session")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as replay_history:
        browser = replay_history.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """Opens tabs; what they asked for, said and refused is kept beside them."""
    made = []

    def open_tab(**options):
        options = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Europe/Berlin", **options}
        context = chromium.new_context(**options)
        context.set_default_timeout(120_000)
        page = context.new_page()
        seen = SimpleNamespace(page=page, asked=[], said=[])
        page.on("request", lambda request: seen.asked.append(request.url))
        page.on("console", lambda text: seen.said.append((text.type, text.text)))
        page.on("pageerror", lambda problem: seen.said.append(("error", str(problem))))
        made.append(context)
        return seen

    yield open_tab
    for context in made:
        context.close()
