"""The form of the settings: what it shows is what is held, what is typed is what is kept, or it says why not."""

import html
import re
from html.parser import HTMLParser
from typing import get_args
from urllib.parse import urlencode

import pytest
from monitor_data import SECRET
from test_pages import Outline

from shiftgauge.monitor.db.models import get_settings, put_settings
from shiftgauge.monitor.db.tokens import create_token
from shiftgauge.monitor.pages.settings_page import fingerprint, form_fields, form_texts, read_form
from shiftgauge.monitor.periods import HOUR, now_us, simulated_time
from shiftgauge.monitor.problems import ApiProblem
from shiftgauge.monitor.run.worker import Worker
from shiftgauge.monitor.settings import Settings

OTHER_SECRET = "whsec_YW5vdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMuLi4="

EVERYTHING = {
    "window": "hour",
    "lateness_minutes": 7.5,
    "segments": ["country", "device"],
    "level": 0.8,
    "method": "cott",
    "replicates": 50,
    "metrics": ["f1", "recall:fraud"],
    "retention_days": 30,
    "limits": {
        "error": 0.07,
        "rise": 0.29,
        "width": 0.1,
        "silence_hours": 1.5,
        "not_estimated_hours": 4,
        "windows": 3,
    },
    "webhook": {"url": "https://example.org/hook", "secret": SECRET, "shape": "slack"},
}


def form_of(settings, **typed):
    return {**form_texts(settings), "was": fingerprint(settings), **typed}


def test_what_is_shown_is_read_back_as_nothing_changed():
    for held in (Settings(), Settings().changed(EVERYTHING)):
        assert read_form(form_of(held), held) == {}


def test_every_setting_can_be_typed():
    """A form that shows other settings, saved over the first ones, gives those other settings."""
    held, wanted = Settings(), Settings().changed(EVERYTHING)
    typed = {**form_texts(wanted), "webhook.secret": SECRET}
    assert held.changed(read_form(form_of(held, **typed), held)) == wanted
    assert {name.rpartition(".")[2] for name in typed} >= {"window", "error", "shape", "retention_days"}
    back = wanted.changed(read_form(form_of(wanted, **form_texts(held)), wanted))
    assert back == held


def test_every_choice_that_is_offered_is_taken():
    for field in form_fields(Settings()):
        for choice in field.choices:
            webhook = {"webhook.url": "https://example.org"} if field.name.startswith("webhook") else {}
            held = Settings()
            held.changed(read_form(form_of(held, **{field.name: choice, **webhook}), held))


def test_percents_are_exact():
    """Every tenth of a percent becomes the fraction that people mean."""
    held = Settings()
    for tenth in range(1, 1000):
        given = read_form(form_of(held, **{"limits.error": f"{tenth / 10:g}"}), held)
        assert given == {"limits": {"error": float(f"0.{tenth:03}")}}


def test_the_secret_stays_unless_typed_or_taken_away():
    held = Settings().changed(EVERYTHING)
    assert held.changed(read_form(form_of(held, window="day"), held)).webhook.secret == SECRET
    other = read_form(form_of(held, **{"webhook.secret": OTHER_SECRET}), held)
    assert held.changed(other).webhook.secret == OTHER_SECRET
    gone = read_form(form_of(held, **{"webhook.unsigned": "on"}), held)
    assert held.changed(gone).webhook.secret == ""
    assert held.changed(read_form(form_of(held, **{"webhook.url": ""}), held)).webhook is None


def test_a_limit_on_each_metric():
    held = Settings().changed({"metrics": ["f1", "class_error"], "limits": {"metrics": {"recall:a b": 0.7}}})
    texts = form_texts(held)
    assert texts["limits.metrics.recall:a b"] == "70"
    typed = {"limits.metrics.f1": "82.5", "limits.metrics.recall:a b": ""}
    given = read_form(form_of(held, **typed), held)
    assert given == {"limits": {"metrics": {"f1": 0.825, "recall:a b": None}}}
    assert held.changed(given).limits.metrics == {"f1": 0.825}


def test_services_are_added_and_removed_and_their_urls_never_shown(empty_client, held):
    pytest.importorskip("apprise")
    new = {"notify.name": "ml-team", "notify.url": "json://example.org/s3cret"}
    assert post(empty_client, form_of(held, **new)).status_code == 303
    now = get_settings(empty_client.store, "m")
    assert [(one.name, one.url) for one in now.notify] == [("ml-team", "json://example.org/s3cret")]
    page = empty_client.get("/models/m/settings").text
    assert "ml-team" in page
    assert "s3cret" not in page
    bad = {"notify.name": "other", "notify.url": "nothing://s3cret"}
    answer = post(empty_client, form_of(now, **bad))
    assert answer.status_code == 422
    assert "apprise cannot read" in answer.text
    assert "s3cret" not in answer.text
    assert post(empty_client, form_of(now, window="week")).status_code == 303
    now = get_settings(empty_client.store, "m")
    assert len(now.notify) == 1
    assert post(empty_client, form_of(now, **{"notify.remove.ml-team": "on"})).status_code == 303
    assert get_settings(empty_client.store, "m").notify == ()


def test_numbers_that_are_none_are_said():
    held = Settings()
    with pytest.raises(ApiProblem, match=r"Error 'a few': wanted a number"):
        read_form(form_of(held, **{"limits.error": "a few"}), held)


def post(client, form, **more):
    headers = {"content-type": "application/x-www-form-urlencoded", **more.pop("headers", {})}
    return client.post("/models/m/settings", content=urlencode(form), headers=headers, **more)


@pytest.fixture
def held(empty_client):
    return put_settings(empty_client.store, "m", {})


class SentForm(HTMLParser):
    """What a browser sends of a page's form when nothing was typed."""

    def __init__(self, text):
        super().__init__()
        self.sent, self.select, self.selected = {}, None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "input" and attrs.get("type") != "checkbox":
            self.sent[attrs["name"]] = attrs["value"]
        elif tag == "select":
            self.select = attrs["name"]
        self.selected = tag == "option" and "selected" in attrs

    def handle_data(self, data):
        if self.selected:
            self.sent[self.select], self.selected = data, False


def setting_names(record, prefix=""):
    """The names of all settings, those within records and lists of records included."""
    for name, info in record.model_fields.items():
        parts = [one for one in (info.annotation, *get_args(info.annotation)) if hasattr(one, "model_fields")]
        if parts:
            yield from setting_names(parts[0], f"{prefix}{name}.")
        else:
            yield prefix + name


def test_every_setting_is_in_the_form(empty_client, held):
    sent = SentForm(empty_client.get("/models/m/settings").text).sent
    names = set(setting_names(Settings))
    assert names >= {"window", "limits.windows", "webhook.secret", "notify.url"}
    assert set(sent) == names - {"limits.metrics"} | {"was"}
    put_settings(empty_client.store, "m", EVERYTHING)
    sent = SentForm(empty_client.get("/models/m/settings").text).sent
    on_metrics = {"limits.metrics.f1", "limits.metrics.recall:fraud"}
    assert set(sent) == names - {"limits.metrics"} | on_metrics | {"was"}


@pytest.mark.parametrize("given", [{}, EVERYTHING])
def test_a_form_that_is_posted_unchanged_changes_nothing(empty_client, held, given):
    now = put_settings(empty_client.store, "m", given)
    before = empty_client.get("/v1/audit").json()
    sent = SentForm(empty_client.get("/models/m/settings").text).sent
    assert post(empty_client, sent).status_code == 303
    assert get_settings(empty_client.store, "m") == now
    assert empty_client.get("/v1/audit").json() == before


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"limits.error": "150"}, {"limits.error": "Error '150': wanted a number from 0 to 100"}),
        ({"level": ""}, {"level": "Level '': wanted a number from 50 to 99"}),
        ({"replicates": "20.5"}, {"replicates": "wanted a whole number from 20 to 2000"}),
        (
            {"retention_days": "nan", "limits.rise": "-1"},
            {"retention_days": "to 36500", "limits.rise": "'-1'"},
        ),
        ({"segments": "a, b/c"}, {"segments": "segment name 'b/c'"}),
        ({"metrics": "f2"}, {"metrics": "wanted one of precision"}),
        ({"method": "magic"}, {"method": "wanted one of auto"}),
        ({"labels_are_random": "maybe"}, {"labels_are_random": "'maybe': wanted a boolean"}),
        ({"webhook.url": "ftp://x"}, {"webhook.url": "begins with https://"}),
        ({"webhook.url": "https://x", "webhook.secret": "s3cret"}, {"webhook.secret": "24 to 64 bytes"}),
        ({"notify.name": "a"}, {"notify.url": "has no url yet"}),
        ({"notify.name": "a b", "notify.url": "json://s3cret"}, {"notify.name": "notification name 'a b'"}),
        ({"limits.metrics.f1": "101"}, {"limits.metrics.f1": "F1 '101': wanted a number from 0 to 100"}),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(empty_client, held, typed, said):
    if "notify.url" in typed:
        pytest.importorskip("apprise")
    now = put_settings(empty_client.store, "m", {"metrics": ["f1"]})
    answer = post(empty_client, form_of(now, **typed))
    assert answer.status_code == 422
    assert "s3cret" not in answer.text
    seen = [attrs for _, attrs in Outline(answer.text).seen]
    wrong = {attrs["name"]: attrs["aria-describedby"] for attrs in seen if "aria-invalid" in attrs}
    assert set(wrong) == set(said)
    for name, words in said.items():
        beside = answer.text.partition(f'id="{wrong[name]}"')[2].partition("</div>")[0]
        assert words in html.unescape(beside)
    assert get_settings(empty_client.store, "m") == now


def test_saving_changes_only_what_was_typed(empty_client, held):
    answer = post(empty_client, form_of(held, **{"limits.error": "20"}))
    assert (answer.status_code, answer.headers["location"]) == (303, "/models/m/settings?saved=1")
    assert get_settings(empty_client.store, "m") == Settings().changed({"limits": {"error": 0.2}})


def test_what_cannot_be_used_is_said_and_kept_in_the_form(empty_client, held):
    answer = post(empty_client, form_of(held, window="<b>fortnight</b>"))
    assert answer.status_code == 422
    page = Outline(answer.text)
    assert "wanted 'hour', 'day', 'week'" in page.text
    assert "<b>fortnight</b>" in [a.get("value") for _, a in page.seen]
    assert get_settings(empty_client.store, "m") == held


def test_a_form_of_before_does_not_undo_a_change_of_somebody_else(empty_client, held):
    put_settings(empty_client.store, "m", {"limits": {"error": 0.3}})
    answer = post(empty_client, form_of(held, **{"limits.error": "20"}))
    assert answer.status_code == 409
    assert "changed since this form was opened" in answer.text
    assert '"30"' in answer.text
    assert get_settings(empty_client.store, "m").limits.error == 0.3


def test_a_form_from_another_site_is_refused(empty_client, held):
    for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        assert post(empty_client, form_of(held, window="hour"), headers=headers).status_code == 403
    assert get_settings(empty_client.store, "m") == held


@pytest.mark.parametrize(
    "body", [b"\xff\xfe", b"&".join(b"a%d=1" % i for i in range(500)), b"", b"window=day"]
)
def test_bodies_that_are_no_form_of_ours_change_nothing(empty_client, held, body):
    answer = empty_client.post("/models/m/settings", content=body)
    assert answer.status_code in (409, 422)
    assert get_settings(empty_client.store, "m") == held


def test_readers_read_and_admins_change(empty_client, held):
    read = ("x", create_token(empty_client.store, "r", ["read"], "m"))
    admin = ("x", create_token(empty_client.store, "a", ["admin"], "m"))
    empty_client.app.state.authenticator._until = 0.0
    page = Outline(empty_client.get("/models/m/settings", auth=read).text)
    assert "not change them" in page.text
    assert [t for t, _ in page.seen].count("button") == 0
    assert all("disabled" in a for t, a in page.seen if t == "fieldset")
    form = form_of(held, **{"limits.error": "20"})
    assert post(empty_client, form, auth=read).status_code == 403
    assert post(empty_client, form).status_code == 401
    assert get_settings(empty_client.store, "m") == held
    assert "button" in [t for t, _ in Outline(empty_client.get("/models/m/settings", auth=admin).text).seen]
    assert post(empty_client, form, auth=admin).status_code == 303


def test_a_model_that_is_not_there_cannot_be_made_by_a_form(empty_client, held):
    answer = empty_client.post("/models/new/settings", content=urlencode(form_of(held)))
    assert answer.status_code == 404
    assert re.search("model .+new.+ is not known", answer.text)


def test_every_field_has_a_label_and_its_help(empty_client, held):
    seen = Outline(empty_client.get("/models/m/settings").text).seen
    labelled = {a["for"] for t, a in seen if t == "label" and "for" in a}
    inputs = {a["id"] for t, a in seen if t in ("input", "select") and "id" in a}
    assert inputs == labelled
    assert len(inputs) == len(form_fields(held))


def test_an_alert_is_acknowledged_by_the_form_beside_it(empty_client):
    empty_client.put("/v1/models/m/settings", json={"limits": {"silence_hours": 0.001}})
    with simulated_time(now_us() + HOUR):
        Worker(empty_client.store).drain()
    assert "Acknowledge" in empty_client.get("/models/m/alerts").text
    answer = empty_client.post(
        "/models/m/alerts/1",
        content=urlencode({"acknowledged": "yes", "mute": "24", "comment": "<i>known</i>"}),
        headers={"content-type": "application/x-www-form-urlencoded"},
        follow_redirects=False,
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/models/m/alerts#alert-1")
    text = empty_client.get("/models/m/alerts").text
    assert "&lt;i&gt;known&lt;/i&gt;" in text
    assert "acknowledged <time" in text
    assert "muted until" in text
    foreign = {"origin": "http://elsewhere.example", "content-type": "application/x-www-form-urlencoded"}
    refused = empty_client.post("/models/m/alerts/1", content="acknowledged=no", headers=foreign)
    assert refused.status_code == 403
