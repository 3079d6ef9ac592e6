"""The report: its content agrees with the library, nothing given can break out, its forms hold together."""

import html
import json
import re
from copy import deepcopy
from html.parser import HTMLParser

import numpy as np
import pytest

import shiftgauge as sg
from shiftgauge.reports import Report, report
from shiftgauge.reports.provenance import fingerprint

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps ids, links, headings and elements."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.elements = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        self.elements.append((tag, held))
        if "id" in held:
            self.ids.append(held["id"])
        if tag == "a":
            self.links.append(held["href"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_answer_is_the_library_s(plain, source, target):
    held = plain.to_dict()
    assert held["answer"]["error"] == sg.estimate(source, target, "cott").error
    assert held["answer"]["interval"]["low"] < held["answer"]["error"]
    by_method = {e["method"]: e["error"] for e in held["comparison"]["estimates"]}
    assert by_method == {e.method: e.error for e in sg.compare(source, target)}
    assert held["costs"]["target_beyond"] == pytest.approx(by_method["cott"])
    assert held["costs"]["target_mean"] == pytest.approx(by_method["cot"])
    assert held["costs"]["source_beyond"] == pytest.approx(source.error, abs=1 / source.n)
    assert 1 - held["confidence"]["target_mean"] == pytest.approx(by_method["ac"])
    shares = held["proportions"]
    assert all(sum(shares[key]) == pytest.approx(1) for key in shares if key != "classes")
    per_class = sum(row["share"] * (row["error"] or 0) for row in held["classes"])
    assert per_class == pytest.approx(by_method["cott"])
    moved = {row["marginal"]: row["error"] for row in held["marginals"]["rows"]}
    assert moved["source"] == by_method["cott"]
    assert moved["mlls"] == sg.estimate(source, target, "cott", marginal="mlls").error


def test_names_reach_the_page_without_what_could_steer_a_terminal(plain):
    odd, held = "ant\x1b[2J\r", deepcopy(plain.summary)
    held["classes"][0]["class"] = held["proportions"]["classes"][0] = odd
    held["answer"]["sentence"] = f"On {odd}"
    told = Report(held)
    page = told.to_html()
    for text in (page, repr(told), told._repr_html_()):
        assert not {"\x1b", "\r"} & set(text)
        assert "ant\\x1b[2J\\r" in text
    assert page.count("ant\\x1b[2J\\r") >= 3  # in the sentence, a table and a figure


def test_slices_average_to_the_whole(hostile):
    (table,) = hostile.summary["slices"]
    total = sum(row["share"] * row["error"] for row in table["rows"])
    scot = next(e for e in hostile.summary["comparison"]["estimates"] if e["method"] == "scot")
    assert total == pytest.approx(scot["error"])


def test_the_page_is_whole(plain_page):
    text = plain_page
    assert len(text.encode()) < 400_000
    outline = Outline(text)
    assert len(outline.ids) == len(set(outline.ids))
    assert all(link[1:] in outline.ids for link in outline.links)
    drawn = [held for tag, held in outline.elements if tag == "svg"]
    assert len(drawn) == 6  # the methods twice: for a wide page and for a phone
    assert all(held["role"] == "img" and len(held["aria-label"]) > 30 for held in drawn)
    assert not any(tag in ("script", "img", "iframe", "object") for tag, _ in outline.elements)
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?(https?:)', text)
    assert outside == []
    assert "undefined" not in text
    assert "nan" not in re.sub(r"[a-z]nan|nan[a-z]", "", text.lower())


def test_nothing_given_breaks_out(hostile):
    text = hostile.to_html()
    outline = Outline(text)
    assert not any(tag in ("script", "img", "i", "b", "u", "s") for tag, _ in outline.elements)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "日本語" in text
    assert "$x^2$" in text  # not taken for mathematics
    assert "true error" in text
    written = hostile.to_markdown()
    assert "<script" not in written
    assert "<img" not in written
    assert "a\\|b" in written
    for line in written.splitlines():
        if line.startswith("| a\\|b"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 5


def test_auto_says_why(source, target):
    made = report(source, target, replicates=20)
    held = made.summary["answer"]
    assert held["method"] == "auto"
    page = made.to_html()
    for text in (page, made.to_markdown()):
        assert f"Why: {held['why']}." in html.unescape(text)
        assert f"{100 * held['range']['high']:.1f}%" in text
    assert held["details"]["reason"] in html.unescape(page)
    assert "of the range: sampling error and label noise of these rows alone" in page
    assert held["range"]["low"] <= held["sampling"]["low"] < held["sampling"]["high"] <= held["range"]["high"]


def test_json_is_plain(hostile):
    held = json.loads(hostile.to_json())
    assert held["schema"] == 1
    assert held["comparison"]["target"]["true_error"] > 0
    assert held["provenance"]["options"]["method"] == "scot"


def test_the_same_input_gives_the_same_page(plain_page, source, target):
    assert report(source, target, "cott", replicates=40).to_html() == plain_page


def test_the_fingerprint_sees_every_part(scores):
    a = sg.Source(logits=scores["logits"], labels=scores["labels"])
    changed = scores["logits"].copy()
    changed[-1, -1] += 1e-9
    others = [
        sg.Source(logits=changed, labels=scores["labels"]),
        sg.Source(logits=scores["logits"], labels=scores["labels"][::-1].copy()),
        sg.Source(logits=scores["logits"], labels=scores["labels"], weights=np.r_[2.0, np.ones(599)]),
        sg.Source(logits=scores["logits"], labels=scores["labels"], predictions=scores["labels"]),
        sg.Target(logits=scores["logits"]),
    ]
    marks = {fingerprint(one) for one in (a, *others)}
    assert len(marks) == 6


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.json"])
def test_saved_by_ending(plain, plain_page, tmp_path, name):
    plain.save(tmp_path / name)
    text = plain_page if name == "r.html" else plain.render(name[2:])
    assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_requests(plain, source, target, tmp_path):
    with pytest.raises(sg.FileError, match=r"\.html"):
        plain.save(tmp_path / "report.pdf")
    with pytest.raises(sg.FileError, match="does not exist"):
        plain.save(tmp_path / "no" / "report.html")
    with pytest.raises(sg.InputError, match="is a score"):
        report(source, target, "entropy")
    with pytest.raises(sg.InputError, match="second model"):
        report(source, target, "gde")
    with pytest.raises(sg.InputError, match="did you mean 'cott'"):
        report(source, target, "cotts")
    with pytest.raises(sg.InputError):
        report(source, target, by=["a"], replicates=0)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 60])
def test_few_and_many_classes(k):
    rng = np.random.default_rng(k)
    y = rng.integers(0, k, 400)
    z = rng.normal(size=(400, k)) + 3 * np.eye(k)[y]
    made = report(sg.Source(logits=z[:200], labels=y[:200]), sg.Target(logits=z[200:]), replicates=0)
    text = made.to_html()
    assert len(text.encode()) < 400_000
    assert made.summary["answer"]["sampling"]["kind"].endswith("alone")  # no bootstrap was asked for
    Outline(text)


def test_in_a_notebook(plain):
    assert plain._repr_html_().startswith("<iframe srcdoc=")
    assert "wrong on" in repr(plain)


def test_every_figure_says_its_numbers_under_the_pointer(source, target):
    made = report(source, target, replicates=0)
    texts = re.findall(r'<g class="hover"><title>([^<]*)</title>', made.to_html())
    answer = made.summary["answer"]
    assert (
        sum(text.startswith(f"auto: {100 * answer['error']:.1f}%, ") for text in texts) == 2
    )  # wide and narrow
    share = made.summary["confidence"]["target"][-1]
    assert any(text.endswith(f"{100 * share:.1f}% of the target") for text in texts)
    assert any(text.startswith("confidence ") for text in texts)
    assert "hover: " not in made.to_html()


def test_the_sentence_says_the_level_in_full(source, target):
    found = report(source, target, replicates=0, level=0.975)
    assert "(97.5% range " in found.summary["answer"]["sentence"]
