"""Links lead somewhere, and the site builds without a warning."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from docs_pages import DOCS, FENCE, LIMIT, ROOT, pages

import shiftgauge

LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)[^)]*\)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: Made when the site is built (docs/_hooks/site.py).
GENERATED = {"schema.json"}
#: Public names that are not classes or functions.
NO_ENTRY = {"methods", "plots", "__version__"}


def anchors(path):
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", one.strip().lower())) for one in found}


def links(path):
    return LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "page", [*pages(), ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem
)
def test_links_lead_somewhere(page):
    for link in links(page):
        if re.match(r"https?://", link):
            assert re.fullmatch(r"https?://[\w.-]+\.[a-z]{2,}(/[\w./%#?=&~+-]*)?", link), link
            continue
        name, _, anchor = link.partition("#")
        path = (page.parent / name).resolve() if name else page
        if path.parent == DOCS and path.name in GENERATED:
            continue
        assert path.exists(), f"{page.name}: {link} leads nowhere"
        if anchor and path.suffix == ".md":  # of a picture, the colour scheme it is for
            assert anchor in anchors(path), f"{page.name}: {path.name} has no heading #{anchor}"


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in pages():
        assert page.relative_to(DOCS).as_posix() in text, f"{page.name} is not in mkdocs.yml"


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The built site; a warning fails."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "SHIFTGAUGE_SOURCE": "https://example.org/shiftgauge"},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_whole_and_loads_nothing_from_elsewhere(site):
    commands = (site / "commands.html").read_text(encoding="utf-8")
    assert "--fail-above" in commands
    assert (
        '<code><span class="option">--quiet</span></code>' in commands
    )  # not broken after its dashes on a phone
    outside = set()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        outside |= set(re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', text))
        assert f"shiftgauge {shiftgauge.__version__}" in text
        assert 'href="https://example.org/shiftgauge">source' in text
    assert not {url for url in outside if "canonical" not in url}, outside


@pytest.mark.slow
def test_the_schema_is_served(site):
    shipped = ROOT / "src" / "shiftgauge" / "data" / "schema.json"
    assert (site / "schema.json").read_bytes() == shipped.read_bytes()
    assert 'href="schema.json"' in (site / "commands.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_reference_holds_every_public_name_and_its_source(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    for name in shiftgauge.__all__:
        if name not in NO_ENTRY:
            assert re.search(rf'id="shiftgauge(\.\w+)*\.{name}"', text), f"docs/api/ has no entry of {name}"
    assert "Source code in" in text


def test_pictures_have_a_dark_form():
    for page in pages():
        shown = [link for link in links(page) if ".png" in link or ".svg" in link]
        dark = [link.replace(".png#only-light", "-dark.png#only-dark") for link in shown[::2]]
        assert shown[1::2] == dark, f"{page.name}: each picture twice, #only-light and #only-dark"


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_search_works_from_disk(site, tmp_path):
    """In a real browser, without a server: the page finds what it is asked for."""
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    page = (site / "index.html").as_uri() + "?q=certificate"
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path}", "--virtual-time-budget=60000", "--dump-dom", page],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert re.search(r"[1-9]\d* matching document", done.stdout)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_wide_tables_scroll_by_themselves(site, tmp_path):
    """On a phone no page is wider than the screen, although its tables are."""
    probe = (
        "<script>addEventListener('load', () => setTimeout(() => { const w = document.documentElement; "
        "const wide = [...document.querySelectorAll('.md-typeset__scrollwrap')]"
        ".filter(one => one.scrollWidth > one.clientWidth).length; "
        "w.setAttribute('data-probe', [w.scrollWidth, w.clientWidth, wide].join(' ')); }, 500))</script>"
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=390,800"]
    flags.append("--virtual-time-budget=60000")
    for name in ("commands.html", "index.html", "trusting.html"):
        page = site / f"probe-{name}"
        page.write_text((site / name).read_text(encoding="utf-8").replace("</body>", probe + "</body>"))
        done = subprocess.run(
            [CHROMIUM, *flags, f"--user-data-dir={tmp_path}", "--dump-dom", page.as_uri()],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        page.unlink()
        whole, shown, wide = map(int, re.search(r'data-probe="(\d+) (\d+) (\d+)"', done.stdout).groups())
        assert whole <= shown, name
    assert wide > 0
