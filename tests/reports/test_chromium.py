"""The page in real Chromium: no console message, no request, no sideways scrolling at three widths."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from shiftgauge.reports import report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-default-apps",
    "--hide-scrollbars",
    "--disable-features=NetworkTimeServiceQuerying",
]


def browse(folder, *words):
    profile = folder / "profile"
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    shutil.rmtree(profile, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    return done


def test_silent_and_alone(hostile, tmp_path):
    """Loaded with hostile texts inside: nothing is said on the console, nothing is asked of the network."""
    page = tmp_path / "r.html"
    hostile.save(page)
    log = tmp_path / "net.json"
    done = browse(tmp_path, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom", page.as_uri())
    assert "CONSOLE" not in done.stderr
    assert "Estimated error" in done.stdout
    text = log.read_text(errors="replace").rstrip().rstrip(",")
    held = json.loads(text if text.endswith("}") else text + "]}")
    asked = [e["params"] for e in held["events"] if "url" in e.get("params", {})]
    # What the browser asks for itself has no origin.
    assert not {one["url"] for one in asked if one.get("initiator", "not an origin") != "not an origin"}


@pytest.mark.parametrize("width", [360, 820, 1280])
def test_no_sideways_scrolling(hostile, tmp_path, width):
    """And the methods' chart, drawn once for a wide page and once for a phone, fills the width of its section."""
    text = re.sub(r"<meta http-equiv=[^>]*>", "", hostile.to_html())
    probe = (
        "<script>addEventListener('load', () => { const w = document.documentElement; "
        "const methods = document.querySelector('section');"
        "const charts = [...methods.querySelectorAll('svg')].map(s => Math.round(s.getBoundingClientRect().width));"
        "document.title = `width ${w.scrollWidth} of ${w.clientWidth} charts ${charts} in ${methods.clientWidth}`; "
        "})</script></body>"
    )
    page = tmp_path / "probe.html"
    # Headless Chromium has a least window width of 500: narrower ones are framed.
    page.write_text(text.replace("</body>", probe), encoding="utf-8")
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id="f" src="probe.html" style="width:{width}px;height:900px;border:0"></iframe><script>'
        "addEventListener('load', () => setTimeout(() => { const d = document.getElementById('f').contentDocument;"
        "document.title = d ? d.title : 'no access'; }, 100))</script>",
        encoding="utf-8",
    )
    words = [
        "--allow-file-access-from-files",
        "--window-size=1400,1000",
        "--virtual-time-budget=2000",
        "--dump-dom",
    ]
    said = browse(tmp_path, *words, frame.as_uri()).stdout
    found = re.search(r"<title>width (\d+) of (\d+) charts (\d+),(\d+) in (\d+)</title>", said)
    assert found is not None
    scrolled, seen, *charts, section = map(int, found.groups())
    assert seen == width
    assert scrolled <= width
    assert min(charts) == 0
    assert max(charts) > 0.75 * section
    assert max(charts) == section or width == 820


def test_on_paper(plain, tmp_path):
    page, paper = tmp_path / "r.html", tmp_path / "r.pdf"
    plain.save(page)
    browse(tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    assert paper.read_bytes().startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", paper.read_bytes())) == 2


def test_slices_and_drivers_on_paper(source, target, tmp_path):
    """Two pages too; counts of values that the source does not have, and what labels say."""
    rows = np.arange(target.n)
    by = {"site": np.where(rows % 9, rows % 4, -1).astype(str), "age": 20 + rows % 60}
    source_by = {"site": (np.arange(source.n) % 4).astype(str), "age": 20 + np.arange(source.n) % 40}
    labels = {row: int(target.predictions[row]) for row in range(30)}
    about = {"source": "val.csv", "target": "new.csv"}
    made = report(source, target, by=by, source_by=source_by, labels=labels, about=about, replicates=0)
    page, paper = tmp_path / "r.html", tmp_path / "r.pdf"
    made.save(page)
    text = page.read_text()
    assert "new.csv compared with val.csv" in text
    assert f"site: {(rows % 9 == 0).sum()} target rows have new values" in text
    assert f"age: {(rows % 60 >= 40).sum()} target rows are outside the source" in text
    assert "Why: 0 of the labelled rows are wrong; scores alone" in text
    assert "Why: 0 of the labelled rows are wrong" in made.to_markdown()
    browse(tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", page.as_uri())
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", paper.read_bytes())) == 2
