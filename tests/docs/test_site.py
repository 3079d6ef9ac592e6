"""Links lead somewhere, and the site builds without a warning."""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest
from docs_pages import DOCS, FENCE, LIMIT, ROOT, blocks, pages

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


#: Pages in here may have any length.
LONG = DOCS / "reference"
MOST_WORDS = 1500
MOST_WORDS_OF_README = 700
#: Characters that fit the column of a page in a window of 1280 pixels, and on a phone of 390.
MOST_COLUMNS = 80
MOST_COLUMNS_ON_PHONES = 59
#: What a newcomer reads, perhaps on a phone.
FIRST = [ROOT / "README.md", DOCS / "index.md", DOCS / "tutorial.md"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_can_be_read_in_a_few_minutes(page):
    if LONG not in page.parents:
        assert len(page.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_the_readme_can_be_read_in_two_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= MOST_WORDS_OF_README


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_blocks_fit_their_column(page):
    if LONG in page.parents:
        return  # long commands scroll in their own box
    wide = [line for block in blocks(page) for line in block.text.splitlines() if len(line) > MOST_COLUMNS]
    assert wide == []


@pytest.mark.parametrize("page", FIRST, ids=lambda page: page.stem)
def test_the_first_blocks_fit_a_phone(page):
    """All but a command and its screen, which has 80 columns."""
    shown = [block for block in blocks(page) if block.language != "console"]
    wide = [line for block in shown for line in block.text.splitlines() if len(line) > MOST_COLUMNS_ON_PHONES]
    assert wide == []


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
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
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
    page = (site / "reference" / "schema.html").read_text(encoding="utf-8")
    assert 'href="../schema.json"' in page
    assert 'id="label_summary"' in page


@pytest.mark.slow
def test_the_http_reference_names_every_request(site):
    text = (site / "reference" / "http.html").read_text(encoding="utf-8")
    for request in ("POST /v1/models/{model}/predictions", "GET /v1/models/{model}/windows", "GET /metrics"):
        assert f"<code>{request}</code>" in text
    assert 'href="#windowview"' in text


@pytest.mark.slow
def test_the_reference_holds_every_public_name_and_its_source(site):
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference" / "api").glob("*.html"))
    for name in shiftgauge.__all__:
        if name not in NO_ENTRY:
            assert re.search(rf'id="shiftgauge(\.\w+)*\.{name}"', text), (
                f"docs/reference/api has no entry of {name}"
            )
    assert "Source code in" in text


def test_pictures_have_a_dark_form():
    for page in pages():
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        shown = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", text)
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
    for name in ("index.html", "reference/commands.html", "explanation/labels.html"):
        page = (site / name).with_name("probe.html")
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


def literals():
    """Every text of the package, with a mark where a value is put in."""
    found = []
    for file in (ROOT / "src" / "shiftgauge").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_troubleshooting_quotes_messages_that_exist():
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted, known = re.findall(r"^### `(.+)`$", text, re.M), literals()
    assert len(quoted) > 20
    for message in quoted:
        pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.S)
        assert any(pattern.search(one) for one in known), message
