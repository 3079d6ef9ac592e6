"""The empty monitor: the three commands that it names are typed, and lead from nothing to an observed error."""

import html
import re
import shlex

import numpy as np
import pytest
from monitor_data import days_ago, run_due_jobs

from shiftgauge.cli import main
from shiftgauge.monitor.db.tokens import create_token
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.monitor.periods import iso


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The files that the commands name."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=160)
    truth = np.where(rng.uniform(size=160) < p, "cat", "dog")
    begin = days_ago(3)
    heads = {
        "validation": "prob_cat,prob_dog,label",
        "predictions": "id,time,prob_cat,prob_dog",
        "labels": "id,label",
    }
    lines = {name: [head] for name, head in heads.items()}
    for i in range(160):
        if i < 100:
            lines["validation"].append(f"{p[i]:.6f},{1 - p[i]:.6f},{truth[i]}")
        else:
            lines["predictions"].append(f"r{i},{iso(begin + i * 1_000_000)},{p[i]:.6f},{1 - p[i]:.6f}")
            lines["labels"].append(f"r{i},{truth[i]}")
    for name, held in lines.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(held) + "\n")
    monkeypatch.chdir(tmp_path)
    wrong = np.where(p >= 0.5, "cat", "dog") != truth
    return float(wrong[100:].mean())


def commands(page):
    held = re.findall(r"<pre><code>(.*?)</code></pre>", page, re.S)
    return [shlex.split(html.unescape(re.sub(r"<[^>]*>", "", text))) for text in held]


@pytest.mark.slow
def test_the_three_commands_lead_to_an_observed_error(empty_client, empty_site, folder):
    typed = commands(empty_client.get("/", headers={"host": empty_site.removeprefix("http://")}).text)
    assert len(typed) == 3
    for words in typed:
        assert words[-2:] == ["--url", empty_site]
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert ended.value.code == 0
    run_due_jobs(empty_client.store)
    (window,) = list_windows(empty_client.store, "my-model")
    assert window.error is not None
    assert window.observed == pytest.approx(folder)
    assert "1 model, without limits" in empty_client.get("/").text


def test_with_tokens_the_page_says_which_ones(empty_client):
    token = create_token(empty_client.store, "a", ["admin"])
    empty_client.app.state.authenticator._until = 0.0
    assert "SHIFTGAUGE_TOKEN" in empty_client.get("/", auth=("x", token)).text


def test_the_usual_address_is_not_repeated(empty_client):
    page = empty_client.get("/", headers={"host": "127.0.0.1:8123"}).text
    assert all("--url" not in words for words in commands(page))


def test_words_of_a_command_are_whole_on_a_phone(tab, empty_site):
    page = tab(viewport={"width": 360, "height": 800}).page
    page.goto(empty_site)
    lines = page.evaluate(
        "[...document.querySelectorAll('pre code')].map(code => { const range = document.createRange();"
        "return [...code.querySelectorAll('*')].map(word => { range.selectNodeContents(word);"
        "return new Set([...range.getClientRects()].map(one => Math.round(one.top))).size; }); })"
    )
    assert len(lines) == 3
    assert all(len(words) > 5 and set(words) == {1} for words in lines)
