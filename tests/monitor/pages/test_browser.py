"""The pages in real Chromium: they read, they obey, they stay alone, with and without JavaScript."""

import json
import re

import pytest
from monitor_data import SECRET

from shiftgauge.monitor.db.models import get_settings
from shiftgauge.monitor.db.windows import list_windows
from shiftgauge.reports.page import percent

EVERY = [
    "/",
    "/alerts",
    "/audit",
    "/docs",
    *(f"/models/{end}" for end in ("shop", "shop/alerts", "shop/settings", "waits", "nobody")),
]

#: The least contrast of text against what lies behind it (WCAG 2.2, 1.4.3), over everything that is seen.
CONTRAST = """() => {
  const shades = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const shade = shades(getComputedStyle(e).backgroundColor);
      if (shade.length === 3 || shade[3] > 0.99) return shade;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.getClientRects().length || element.closest(":disabled, title, option")) continue;
    const style = getComputedStyle(element);
    const ink = shades(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push([ratio, element.outerHTML.slice(0, 80)]);
  }
  return found;
}"""


#: Whether a table is shown whole.
FITS = "(e) => e.scrollWidth <= e.clientWidth + 1"


@pytest.fixture(scope="module")
def addresses(shop):
    return [*EVERY, *(f"/models/shop/windows/{w.name}" for w in list_windows(shop, "shop")[:1])]


def test_pages_stay_alone_and_silent_with_hostile_names(tab, site, addresses):
    """Nothing is fetched from elsewhere, the policy is never broken, and nothing hostile ran."""
    seen = tab()
    for address in addresses:
        seen.page.goto(site + address)
        assert seen.page.evaluate("window.hacked") is None
    assert all(url.startswith((site, "data:")) for url in seen.asked)
    assert [text for kind, text in seen.said if kind in ("error", "warning") and "404" not in text] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_scrolls_sideways_and_every_text_can_be_read(tab, site, empty_site, addresses, scheme, width):
    page = tab(viewport={"width": width, "height": 800}, color_scheme=scheme).page
    empty = [empty_site + path for path in ("/", "/alerts")]  # how to begin, and no alerts
    for address in [*(site + path for path in addresses), *empty]:
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert page.evaluate(f"[...document.querySelectorAll('.scroll')].every({FITS})"), address
        assert page.evaluate(CONTRAST) == [], address
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")


def test_the_state_of_a_model_stands_in_a_box(tab, site):
    page = tab().page
    page.goto(site + "/models/shop")
    edge = page.evaluate("getComputedStyle(document.querySelector('main [class~=stop]')).borderLeftWidth")
    assert float(edge.removesuffix("px")) > 3


def test_the_picture_is_there_on_a_phone(tab, site):
    page = tab(viewport={"width": 360, "height": 800}).page
    page.goto(site + "/models/shop")
    assert page.locator("figure .chart").first.bounding_box()["width"] > 300


def slots_of(page):
    """What the chart was drawn from."""
    return json.loads(page.locator("[data-over-time]").get_attribute("data-over-time"))


def point_at(page, place):
    """Move the mouse over a window of the chart."""
    page.locator(".u-over").first.scroll_into_view_if_needed()
    drawn, box = slots_of(page), page.locator(".u-over").first.bounding_box()
    slot = drawn["slots"][place]
    share = ((slot["start"] + slot["end"]) / 2 - drawn["from"]) / (drawn["to"] - drawn["from"])
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=4)
    return box["x"] + share * box["width"], box["y"] + box["height"] / 2


def test_pointing_reads_the_numbers_of_a_window(tab, site, shop):
    page = tab().page
    page.goto(f"{site}/models/shop?range=all&version=v1")
    window = list_windows(shop, "shop", version="v1")[1]
    where = point_at(page, 1)
    said = page.locator("[data-readout]").inner_text()
    for value in (window.error, window.low, window.high, window.observed, window.adaptive_high):
        assert percent(value) in said
    assert page.locator("[data-readout] a").get_attribute("href") == f"/models/shop/windows/{window.name}"
    assert page.locator(".u-cursor-x").first.is_visible()
    page.mouse.click(*where)
    page.wait_for_url(f"**/windows/{window.name}")


def test_a_finger_reads_before_it_opens(tab, site, shop):
    page = tab(has_touch=True, viewport={"width": 390, "height": 844}).page
    page.goto(f"{site}/models/shop?range=all&version=v1")
    page.touchscreen.tap(*point_at(page, 2))
    window = list_windows(shop, "shop", version="v1")[2]
    assert percent(window.error) in page.locator("[data-readout]").inner_text()
    assert page.url.endswith("version=v1")
    page.locator("[data-readout] a").tap()
    page.wait_for_url(f"**/windows/{window.name}")


def test_arrow_keys_read_the_picture_and_enter_opens(tab, site, shop):
    page = tab().page
    page.goto(f"{site}/models/shop?range=all&version=v1")
    names = [w.name for w in list_windows(shop, "shop", version="v1")]
    page.locator("[data-chart]").focus()
    opened = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight"):
        page.keyboard.press(key)
        opened.append(page.locator("[data-readout] a").get_attribute("href").rpartition("/")[2])
    assert opened == [names[i] for i in (0, 1, 2, 1, -1, -1)]
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/windows/{names[-1]}")


def test_dragging_chooses_a_range_that_stands_in_the_address(tab, site, shop):
    page = tab().page
    page.goto(f"{site}/models/shop?range=all&version=v1")
    point_at(page, 1)
    page.mouse.down()
    point_at(page, 3)
    with page.expect_navigation():
        page.mouse.up()
    assert "from=" in page.url
    assert "version=v1" in page.url
    assert len(slots_of(page)["slots"]) == 3


def test_days_are_chosen_with_the_form(tab, site, shop):
    page = tab().page
    page.goto(f"{site}/models/shop")
    first = list_windows(shop, "shop")[0].name[:10]
    page.fill("input[name=to]", first)
    with page.expect_navigation():
        page.click("text=Show")
    assert f"to={first}" in page.url
    assert len(slots_of(page)["slots"]) == 1


def test_without_a_script_every_number_stands_in_a_table(tab, site, shop):
    page = tab(java_script_enabled=False).page
    page.goto(f"{site}/models/shop?range=all&metric=f1")
    windows = list_windows(shop, "shop")
    assert not page.locator("figure").is_visible()
    rows = page.locator("[aria-label=Windows] tbody tr")
    assert percent(windows[-1].metrics[0].value) in rows.first.inner_text()
    assert rows.count() == len(windows)
    assert rows.first.is_visible()
    assert page.get_by_role("button", name="Draw").is_visible()
    page.locator("[aria-label=Windows] tbody a").first.click()
    page.wait_for_url("**/windows/**")


def test_the_chart_is_drawn_and_shows_the_metric_that_is_chosen(tab, site):
    page = tab().page
    page.goto(f"{site}/models/shop?range=all")
    drawn = """() => { const c = document.querySelector(".chart canvas");
        const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        let inked = 0; for (let i = 3; i < d.length; i += 4) inked += d[i] > 0; return inked / (d.length / 4); }"""
    assert page.evaluate(drawn) > 0.05
    assert not page.locator("[aria-label=Windows] table").is_visible()  # the numbers are folded away
    with page.expect_navigation():
        page.select_option("select[name=metric]", "f1")
    assert "metric=f1" in page.url
    assert "range=all" in page.url
    assert slots_of(page)["metric"] == "f1"
    assert "estimated mean F1" in page.locator("figure .legend").first.inner_text()
    assert page.evaluate(drawn) > 0.05


def test_names_of_limits_stand_beside_the_data(tab, site):
    """The chart leaves a margin for them; on a phone the legend alone names them."""
    for width, margin in ((1280, 100), (390, 0)):
        page = tab(viewport={"width": width, "height": 800}).page
        page.goto(f"{site}/models/shop?range=all")
        inner = page.locator(".u-over").first.bounding_box()
        outer = page.locator("[data-chart]").bounding_box()
        assert outer["x"] + outer["width"] - (inner["x"] + inner["width"]) >= margin
        assert "limit 5.0%" in page.locator("figure .legend").first.inner_text()


def test_the_keyboard_reaches_everything_and_shows_where_it_is(tab, site):
    """From the skip link on, every stop has an outline; the chart is one of them."""
    page = tab().page
    page.goto(f"{site}/models/shop")
    stops = []
    for _ in range(60):
        page.keyboard.press("Tab")
        stop = page.evaluate(
            "() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.tagName, e.className.baseVal ?? e.className, s.outlineStyle, parseFloat(s.outlineWidth)] }"
        )
        if stop[0] == "BODY":
            break
        stops.append(stop)
    assert stops[0][1] == "skip"
    assert ["DIV", "chart"] in [stop[:2] for stop in stops]
    assert [stop for stop in stops if stop[2] == "none" or stop[3] < 1] == []
    assert stop[0] == "BODY", "60 stops are too many"


def test_the_skip_link_leads_past_the_header(tab, site):
    page = tab().page
    page.goto(f"{site}/models/shop")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_times_say_their_zone_and_the_reader_s(tab, site):
    page = tab().page
    page.goto(f"{site}/alerts")
    assert "Europe/Berlin" in page.locator("footer").inner_text()
    time = page.locator("time").first
    assert time.inner_text().endswith("UTC")
    assert "Europe/Berlin" in time.get_attribute("title")


def test_settings_are_saved_by_the_form(tab, empty_client, empty_site):
    """A real browser sends the form as browsers do, with its Origin, and is let in."""
    empty_client.put("/v1/models/m/settings", json={"limits": {"error": 0.2}})
    page = tab().page
    page.goto(f"{empty_site}/models/m/settings")
    page.fill("[name='limits.error']", "12.5")
    page.fill("[name=segments]", "country, device")
    page.fill("[name='webhook.url']", "https://example.org/hook")
    page.fill("[name='webhook.secret']", SECRET)
    page.click("button")
    page.wait_for_url("**/settings?saved=1")
    assert page.locator("[role=status]").inner_text() == "Saved."
    held = get_settings(empty_client.store, "m")
    assert (held.limits.error, held.segments) == (0.125, ("country", "device"))
    assert (held.webhook.url, held.webhook.secret) == ("https://example.org/hook", SECRET)
    assert SECRET not in page.content()
    page.fill("[name=window]", "fortnight")
    page.click("button")
    assert "wanted 'hour', 'day', 'week'" in page.locator("[role=alert]").inner_text()
    assert page.input_value("[name=window]") == "fortnight"
    assert get_settings(empty_client.store, "m") == held


def test_a_window_leads_to_its_report(tab, site, shop):
    seen = tab()
    seen.page.goto(f"{site}/models/shop/windows/{list_windows(shop, 'shop')[0].name}")
    seen.page.click("text=Read the full report")
    seen.page.wait_for_url(re.compile("report"))
    assert "Estimated error" in seen.page.locator("header").inner_text()
    assert [text for kind, text in seen.said if kind == "error"] == []
