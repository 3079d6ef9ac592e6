"""The pages over HTTP: what they show, how they refuse, what they never let through."""

import json
import re
from contextlib import closing
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import quote

import pytest
from conftest import CLASSES, DAYS, HOSTILE
from fastapi.testclient import TestClient
from monitor_data import rows_json, run_due_jobs, source_npz
from sqlalchemy import event

from shiftgauge.monitor.db.audit import record_change
from shiftgauge.monitor.db.store import open_store
from shiftgauge.monitor.db.tokens import create_token
from shiftgauge.monitor.db.windows import get_window, list_revisions, list_windows
from shiftgauge.monitor.pages.format import format_range, window_title
from shiftgauge.monitor.run.app import create_app
from shiftgauge.monitor.views import ModelView, VersionView, suggest_limits
from shiftgauge.reports.page import percent

VOID = {"meta", "link", "input", "br", "path", "circle", "line", "img"}
ADDRESSES = [
    "/",
    "/alerts",
    "/audit",
    "/docs",
    "/models/shop",
    "/models/shop/alerts",
    "/models/shop/settings",
    "/models/waits",
]


class Outline(HTMLParser):
    """Elements as they open and close; fails where they do not match."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.words = [], [], []
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"closed without being open: {tag}"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def addresses(shop):
    windows = [f"/models/shop/windows/{w.name}" for w in list_windows(shop, "shop")]
    return [*ADDRESSES, windows[0], windows[-1], windows[0] + "?revision=1", "/models/shop?range=all"]


def get(pages, address, status=200):
    answer = pages.get(address)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return Outline(answer.text)


def linked(page):
    """The windows that a page leads to."""
    return {a["href"] for _, a in page.seen if a.get("href", "").startswith("/models/shop/windows/")}


def test_every_page_is_whole_and_fetches_only_from_here(pages, addresses):
    for address in addresses:
        for tag, attributes in get(pages, address).seen:
            for name in ("href", "src", "action"):
                value = attributes.get(name)
                assert value is None or value == "data:," or re.match(r"/(?!/)|#|\?", value), (
                    address,
                    tag,
                    value,
                )
            assert "style" not in attributes
            assert not [name for name in attributes if name.startswith("on")]


def test_every_page_has_its_landmarks_and_names(pages, addresses):
    for address in addresses:
        seen = get(pages, address).seen
        tags = [tag for tag, _ in seen]
        for landmark in ("header", "main", "footer", "h1", "title"):
            assert tags.count(landmark) == 1 or (landmark == "title" and "svg" in tags), (address, landmark)
        assert ("html", {"lang": "en"}) in seen
        ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
        assert len(ids) == len(set(ids))
        for tag, attributes in seen:
            if tag in ("nav", "section") or attributes.get("role") in ("img", "region", "group"):
                label = attributes.get("aria-label") or attributes.get("aria-labelledby")
                assert label, (address, tag, attributes)
                assert "aria-labelledby" not in attributes or attributes["aria-labelledby"] in ids
            if "aria-describedby" in attributes:
                assert attributes["aria-describedby"] in ids


def test_the_policy_allows_no_inline_script_or_style(pages, addresses):
    for address in addresses:
        answer = pages.get(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "<style" not in answer.text
        assert not re.search(r"<script(?![^>]* src=\"/static/)", answer.text)
        assert "set-cookie" not in answer.headers


def test_what_the_ranges_of_segments_contain(pages, shop):
    name = list_windows(shop, "shop")[0].name
    text = get(pages, f"/models/shop/windows/{name}").text
    assert "for all values at once" not in text
    assert "It contains the error of the method, sampling error and label noise" in text


def test_a_segment_of_too_few_rows_is_shown_without_a_range(empty_client):
    for path, body in [
        ("versions/v1/source", {"content": source_npz()}),
        ("settings", {"json": {"segments": ["s"]}}),
    ]:
        empty_client.put(f"/v1/models/m/{path}", **body).raise_for_status()
    rows, _ = rows_json(120, segments=lambda i: {"s": "many" if i >= 4 else "few"})
    empty_client.post("/v1/models/m/predictions", json={"rows": rows}).raise_for_status()
    run_due_jobs(empty_client.store)
    (window,) = list_windows(empty_client.store, "m")
    many, few = window.segments
    for address in ("/models/m", f"/models/m/windows/{window.name}"):
        text = get(empty_client, address).text
        assert format_range(many.low, many.high) in text
        assert re.search(rf"few ?4?{re.escape(percent(few.error))} ?too few rows", text), text


def test_hostile_texts_are_shown_as_texts(pages, shop, addresses):
    """Values of segments stand on the pages letter by letter, and nowhere as an element."""
    name = list_windows(shop, "shop")[0].name
    for address in ("/models/shop", f"/models/shop/windows/{name}"):
        page = get(pages, address)
        for text in HOSTILE:
            assert " ".join(text.split()) in page.text
    for address in addresses:
        page = get(pages, address)
        assert "img" not in [tag for tag, _ in page.seen]
        assert [a for tag, a in page.seen if tag == "script" and "src" not in a] == []
        assert "49' onmouseover" not in page.text


def test_the_report_of_hostile_classes_is_escaped_too(pages, shop):
    name = list_windows(shop, "shop")[0].name
    text = pages.get(f"/v1/models/shop/windows/{name}/report").text
    assert CLASSES[0] not in text
    assert "&lt;b&gt;one&lt;/b&gt;" in text


@pytest.mark.parametrize(
    "name", ["<script>alert(1)", "<img src=x onerror=alert(1)>", '"><b>', "a b", "x" * 200, "nobody"]
)
def test_unknown_and_hostile_models_get_a_page_that_says_so(empty_client, name):
    for end in ("", "/alerts", "/settings", "/windows/w"):
        answer = empty_client.get(f"/models/{quote(name, safe='')}{end}")
        assert answer.status_code in (404, 422)
        assert answer.headers["content-type"].startswith("text/html")
        page = Outline(answer.text)
        assert name[:20] in page.text
        assert {tag for tag, _ in page.seen}.isdisjoint({"img", "b"})
        assert [a for tag, a in page.seen if tag == "script" and "src" not in a] == []


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "a%00b", "%ff"])
def test_names_never_become_paths(empty_client, name):
    for address in (f"/models/{name}", f"/models/{name}/windows/{name}", f"/static/000000000000/{name}"):
        assert empty_client.get(address).status_code in (404, 422)


def test_the_list_shows_the_urgent_first_with_its_numbers(pages, shop):
    page = get(pages, "/")
    assert page.text.index("shop") < page.text.index("waits")
    assert "2 models: 1 with an alert, 1 waiting" in page.text
    latest = list_windows(shop, "shop", version="v2")[-1]
    assert percent(latest.error) in page.text
    assert "no source yet" in page.text


def test_the_model_page_shows_what_the_service_says(pages, shop):
    page = get(pages, "/models/shop")
    for window in list_windows(shop, "shop"):
        assert window_title(window) in page.text
        for value in (window.error, window.adaptive_low, window.observed):
            assert value is None or percent(value) in page.text
    (figure,) = [a for _, a in page.seen if "data-over-time" in a]
    assert len(json.loads(figure["data-over-time"])["slots"]) == DAYS  # versions side by side share a place
    assert "The adaptive range covered the observed error in" in page.text
    assert "limit 5.0%" in page.text
    assert "UTC" in page.text


def test_the_headline_is_the_measured_range_with_its_level(pages, shop):
    """On the list, the model's page and the window's, with the sampling part named beside it."""
    latest = list_windows(shop, "shop", version="v2")[-1]
    assert latest.level == 0.9
    assert latest.low < latest.error - latest.sampling
    for address in ("/", "/models/shop", f"/models/shop/windows/{latest.name}"):
        said = get(pages, address).text
        assert "90% range" in said
        assert f"{percent(latest.low)} to {percent(latest.high)}" in said
        assert f"sampling ±{100 * latest.sampling:.1f} points" in said
        assert "90% interval" not in said


def test_without_limits_the_pages_say_so_and_offer_one(empty_client):
    empty_client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
    empty_client.put("/v1/models/m/settings", json={"replicates": 20}).raise_for_status()
    empty_client.post("/v1/models/m/predictions", json={"rows": rows_json(60)[0]}).raise_for_status()
    run_due_jobs(empty_client.store)
    assert empty_client.get("/v1/models/m").json()["state"] == "no-limits"
    for address in ("/", "/models/m"):
        said = get(empty_client, address).text
        assert "no limits set" in said
        assert "within limits" not in said
    suggested = empty_client.get("/v1/models/m/suggested-limits").json()
    source_error = empty_client.get("/v1/models/m").json()["versions"][0]["source_error"]
    for address in ("/models/m", "/models/m/settings"):
        assert f"Alert above {percent(suggested['error'])}" in get(empty_client, address).text
        assert f"an error of {percent(source_error)}" in get(empty_client, address).text
    empty_client.put("/v1/models/m/settings", json={"limits": {"silence_hours": 1000}}).raise_for_status()
    assert "no limit on the error set" in get(empty_client, "/models/m").text
    assert empty_client.post("/models/m/settings/suggested").status_code == 303
    held = empty_client.get("/v1/models/m/settings").json()["limits"]
    assert (held["rise"], held["error"], held["silence_hours"]) == (suggested["limits"]["rise"], None, 1000)
    assert "Alert above" not in get(empty_client, "/models/m").text
    empty_client.put(
        "/v1/models/m/settings", json={"limits": {"error": 0.9, "rise": None}}
    ).raise_for_status()
    for address in ("/", "/models/m"):
        assert "estimate within limits" in get(empty_client, address).text
    assert (
        empty_client.post("/models/m/settings/suggested").status_code == 303
    )  # the error has a limit: it stays
    assert empty_client.get("/v1/models/m/settings").json()["limits"]["rise"] is None


def test_a_range_that_reaches_above_the_limit_is_said_beside_the_estimate(empty_client):
    empty_client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
    empty_client.put("/v1/models/m/settings", json={"replicates": 20}).raise_for_status()
    empty_client.post("/v1/models/m/predictions", json={"rows": rows_json(60)[0]}).raise_for_status()
    run_due_jobs(empty_client.store)
    (w,) = empty_client.get("/v1/models/m/windows").json()["windows"]
    between = (w["error"] + w["range"]["high"]) / 2
    sampling = w["error"] - w["sampling"] / 2
    for limit, expected in (
        (between, ("estimate within limits", f"its range reaches above the limit of {percent(between)}")),
        (
            sampling,
            ("no alert", f"the estimate is above the limit of {percent(sampling)}, but not by enough"),
        ),
        (0.99, ("estimate within limits",)),
    ):
        empty_client.put("/v1/models/m/settings", json={"limits": {"error": limit}}).raise_for_status()
        run_due_jobs(empty_client.store)
        for address in ("/", "/models/m"):
            said = get(empty_client, address).text
            assert all(text in said for text in expected)
            assert ("above the limit" in said) == (limit != 0.99)
    page = get(empty_client, f"/models/m/windows/{w['window']}").text
    assert "60 rows, 0 labelled" in page
    assert "The estimate and the observed error" not in page
    assert "The adaptive range follows from" in page


@pytest.mark.parametrize(
    ("error", "rows", "rise"),
    [
        (0.20, 10_000, 0.05),  # at most five points
        (0.04, 100_000, 0.02),  # half as much again
        (0.10, 100, 0.061),  # Wilson: (0.1 + z^2/200 + z sqrt(0.0009 + z^2/40000)) / (1 + z^2/100) = 0.1604
        (0.0, 50, 0.052),  # z^2 / (50 + z^2)
    ],
)
def test_the_suggested_limit_follows_from_the_source(error, rows, rise):
    about = {"name": "v1", "rows": 9, "kind": "probs", "k": 2, "classes": None, "source_created": 0}
    version = VersionView(**about, source_rows=rows, source_error=error)
    words = {"name": "m", "created": 0, "state": "ok", "reason": None, "rows": 9, "last_row": 0}
    model = ModelView(**words, versions=(version,), firing=0, waiting=0, latest=None)
    assert suggest_limits(model).limits == {"rise": pytest.approx(rise)}


def test_windows_by_rows_of_a_single_time_follow_one_another(empty_client):
    """The page of each links the ones before and after it."""
    empty_client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
    empty_client.put("/v1/models/m/settings", json={"window": "20 rows", "replicates": 20}).raise_for_status()
    rows, _ = rows_json(60)
    same = [{**row, "time": rows[0]["time"]} for row in rows]
    empty_client.post("/v1/models/m/predictions", json={"rows": same}).raise_for_status()
    later, _ = rows_json(20, day=1, prefix="later")
    empty_client.post("/v1/models/m/predictions", json={"rows": later}).raise_for_status()
    run_due_jobs(empty_client.store)
    names = [w.name for w in list_windows(empty_client.store, "m")]
    assert len(names) == 4
    for place, name in enumerate(names):
        seen = get(empty_client, f"/models/m/windows/{name}").seen
        links = {a["rel"]: a["href"].rpartition("/")[2] for _, a in seen if a.get("rel") in ("prev", "next")}
        beside = {
            "prev": names[place - 1] if place else None,
            "next": names[place + 1] if place < 3 else None,
        }
        assert links == {rel: one for rel, one in beside.items() if one}


def test_an_alert_says_whether_it_is_confirmed(pages):
    for address in ("/models/shop", "/alerts"):
        assert re.search(
            r"not confirmed: label some rows|, confirmed|\(confirmed\)", get(pages, address).text
        )


def test_a_model_without_a_source_says_what_to_type(pages):
    page = get(pages, "/models/waits")
    assert (
        "shiftgauge push source validation.csv --model waits --model-version v1 --url http://127.0.0.1"
        in page.text
    )
    assert not [name for _, attributes in page.seen for name in attributes if name == "data-over-time"]
    assert "waiting: no source yet" in page.text


def test_a_range_in_the_address_chooses_windows(pages, shop):
    first, *_, last = [w.name[:10] for w in list_windows(shop, "shop", version="v1")]
    page = get(pages, f"/models/shop?from={first}&to={first}")
    assert linked(page) == {f"/models/shop/windows/{first}.v1"}
    assert [a["value"] for _, a in page.seen if a.get("type") == "date"] == [first, first, ""]
    assert "No window has rows in this range" in get(pages, "/models/shop?from=2001-01-01&to=2001-02-01").text
    only = get(pages, "/models/shop?version=v2&range=all")
    assert {address[-2:] for address in linked(only)} == {"v2"}
    assert f"/models/shop/windows/{last}.v2" in linked(only)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("from=yesterday", "wanted a day such as 2026-03-05"),
        ("from=2026-03-05&to=2026-03-01", "ends before it begins"),
        ("range=fortnight", "wanted one of 1d"),
        ("version=v9", "version 'v9' is not known"),
        ("to=9999-12-31", "wanted a day"),
        ("as_of=<script>", "wanted a day"),
    ],
)
def test_ranges_that_cannot_be_read_are_said(pages, query, said):
    assert pages.get(f"/models/shop?{query}").status_code in (404, 422)
    assert said in Outline(pages.get(f"/models/shop?{query}").text).text


def test_as_of_shows_what_was_known_then(pages):
    """Before the first estimate was made nothing was known."""
    page = get(pages, "/models/shop?as_of=2001-01-01")
    assert "No window had been estimated by then." in page.text
    assert "As known at 2 Jan 2001, 00:00 UTC" in page.text


def test_a_window_shows_the_estimate_what_turned_out_and_its_revisions(pages, shop):
    window = list_windows(shop, "shop", version="v1")[0]
    page = get(pages, f"/models/shop/windows/{window.name}")
    for text in (
        percent(window.error),
        percent(window.observed),
        "every row is labelled",
        "Read the full report",
    ):
        assert text in page.text
    assert f"/v1/models/shop/windows/{window.name}/report?format=html" in [
        a.get("href") for _, a in page.seen
    ]
    after = list_windows(shop, "shop", version="v1")[1]
    assert f"/models/shop/windows/{after.name}" in [a.get("href") for _, a in page.seen]
    revisions = [a["href"] for _, a in page.seen if a.get("href", "").startswith("?revision=")]
    assert len(revisions) == get_window(shop, "shop", window.name).newest
    get(pages, f"/models/shop/windows/{window.name}?revision=99", 404)
    get(pages, f"/models/shop/windows/{window.name}?revision=x", 404)


def test_a_window_shows_how_labels_narrow_its_range(tmp_path):
    """A line for the scores alone and one for each number of labels; each with its range, in words too."""
    with (
        closing(open_store(tmp_path / "data")) as store,
        TestClient(create_app(store), base_url="http://127.0.0.1") as client,
    ):
        client.put("/v1/models/m/versions/v1/source", content=source_npz()).raise_for_status()
        rows, labels = rows_json(300, shift=0.6)
        client.post("/v1/models/m/predictions", json={"rows": rows}).raise_for_status()
        run_due_jobs(store)
        name = client.get("/v1/models/m/windows").json()["windows"][0]["window"]
        assert "How labels narrow the range" not in get(client, f"/models/m/windows/{name}").text
        asked = client.post("/v1/models/m/label-requests", json={"labels": 50}).json()["rows"]
        truth = {row["id"]: label for row, label in zip(rows, labels, strict=True)}
        for part in (asked[:20], asked[20:]):
            body = [{"id": row["id"], "label": truth[row["id"]]} for row in part]
            client.post("/v1/models/m/labels", json=body).raise_for_status()
            run_due_jobs(store)
        views = list_revisions(store, "m", name)
        page = get(client, f"/models/m/windows/{name}")
    text = page.text[page.text.index("How labels narrow the range") :]
    lines = [("scores alone", views[0]), ("20 labels", views[1]), ("50 labels", views[2])]
    for (words, view), (following, _) in pairwise([*lines, ("The range by number of labels", views[2])]):
        line = text[text.index(words) : text.index(following)]
        assert percent(view.error) in line
        assert format_range(view.low, view.high) in line
    assert "a random sample of the rows" in page.text


def test_alerts_show_what_fires_and_what_could_not_be_delivered(pages):
    page = get(pages, "/alerts")
    assert "firing" in page.text
    assert "Not delivered" in page.text
    assert "above the limit of 5.0%" in page.text
    assert "No alert is firing for waits" in get(pages, "/models/waits/alerts").text


def test_pages_read_windows_and_never_rows(pages, shop):
    """The same few statements for any number of windows, and none that touches the rows."""
    said = []

    def listen(connection, cursor, statement, *_):
        said.append(statement)

    event.listen(shop.engine, "before_cursor_execute", listen)
    try:
        get(pages, "/models/shop?range=all")
        many = [s for s in said if s.startswith("SELECT") and "FROM tokens" not in s]
        said.clear()
        first = list_windows(shop, "shop")[0].name[:10]
        said.clear()
        get(pages, f"/models/shop?from={first}&to={first}")
        few = [s for s in said if s.startswith("SELECT") and "FROM tokens" not in s]
    finally:
        event.remove(shop.engine, "before_cursor_execute", listen)
    assert len(few) == len(many) < 30
    assert not [s for s in many if re.search(r"\b(batches|reports|outbox|keys)\b", s)]


def test_static_files_are_named_by_their_content_and_kept(pages):
    page = pages.get("/").text
    for address, kind in re.findall(r'"(/static/[0-9a-f]{12}/\w+\.(css|js))"', page):
        answer = pages.get(address)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/css" if kind == "css" else "text/javascript")
        assert "immutable" in answer.headers["cache-control"]
    for wrong in ("router.py", "..%2frouter.py", "base.html.j2"):
        assert pages.get(f"/static/000000000000/{wrong}").status_code == 404


def test_with_tokens_the_browser_is_asked_for_one(empty_client):
    empty_client.put("/v1/models/mine/settings", json={})
    empty_client.put("/v1/models/other/settings", json={})
    read = create_token(empty_client.store, "r", ["read"], "mine")
    empty_client.app.state.authenticator._until = 0.0
    answer = empty_client.get("/")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")
    assert "enter the token as the password" in Outline(answer.text).text
    mine = ("any name", read)
    assert "other" not in Outline(empty_client.get("/", auth=mine).text).text
    assert empty_client.get("/alerts", auth=mine).status_code == 200
    assert empty_client.get("/models/mine", auth=mine).status_code == 200
    refused = empty_client.get("/models/other", auth=mine)
    assert refused.status_code == 403
    assert "lacks the scope" in Outline(refused.text).text


def test_the_audit_log_names_tokens_and_shows_them_to_an_admin_of_all_models_alone(empty_client):
    store = empty_client.store
    tokens = {
        name: ("any", create_token(store, name, scopes, model))
        for name, scopes, model in (
            ("chief", ["admin"], None),
            ("<b>of mine</b>", ["admin"], "mine"),
            ("reader", ["read"], None),
        )
    }
    empty_client.app.state.authenticator._until = 0.0
    changed = empty_client.put("/v1/models/mine/settings", json={"level": 0.8}, auth=tokens["<b>of mine</b>"])
    changed.raise_for_status()
    with store.write() as connection:
        record_change(connection, "chief", "erase", None, rows=2000)
    everything = Outline(empty_client.get("/audit", auth=tokens["chief"]).text).text
    assert re.search(r"erase ?– ?rows ?2,000", everything)
    mine = Outline(empty_client.get("/audit", auth=tokens["<b>of mine</b>"]).text).text
    assert empty_client.get("/audit", auth=tokens["reader"]).status_code == 403
    for text in (everything, mine):
        assert re.search(r"UTC ?<b>of mine</b> ?settings ?mine ?changed ?level", text)
    assert "chief" in everything
    assert "chief" not in mine
    (change,) = [
        c for c in empty_client.get("/v1/audit", auth=tokens["chief"]).json()["changes"] if c["model"]
    ][:1]
    assert (
        "level"
        not in Outline(empty_client.get(f"/audit?before={change['id']}", auth=tokens["chief"]).text).text
    )
