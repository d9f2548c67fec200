"""The report as a reader sees it: in Chromium, without a network, at two widths, light and dark."""

import dataclasses
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from stormcell.report.write import write
from tests.unit.report.recorded import campaigns, everything

WIDTHS = (1400, 390)
SCHEMES = ("light", "dark")
CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
                          return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = element => { for (; element; element = element.parentElement) {
    const found = rgb(getComputedStyle(element).backgroundColor); if (found[3] === 255) return found; }
    return rgb(getComputedStyle(document.body).backgroundColor); };
  const low = [];
  for (const element of document.querySelectorAll('p, li, td, th, b, small, code, pre, dt, dd, h1, h2, h3, h4, a')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility()) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push(`${element.tagName} ${element.className} ${ratio.toFixed(2)}`);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; `scripts/setup.sh dev` installs it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    whole = dataclasses.replace(everything(), campaigns=campaigns(tmp_path_factory.mktemp("campaigns")).campaigns)
    return write(whole, tmp_path_factory.mktemp("report")).html.as_uri()


@pytest.fixture
def page(browser, address, width, scheme) -> Iterator[Page]:
    """The loaded page; whatever it wants from elsewhere, or complains about, fails the test."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: asked.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: asked.append(f"error: {error}"))
    page.goto(address)
    yield page
    context.close()
    assert asked == [address]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_page_fits_and_can_be_read(page, width, scheme):
    assert page.evaluate("document.documentElement.scrollWidth") == width
    outside = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && !e.closest('.scroll, pre')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    assert page.evaluate(CONTRAST) == []
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(16, 20, 24)") == (scheme == "dark")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES[:1])
def test_figures_are_those_of_the_width_and_their_words_stay_on_paper(page, width, scheme):
    shown = page.evaluate(
        "[...document.querySelectorAll('.plot svg')].filter(e => e.checkVisibility()).map(e => e.viewBox.baseVal.width)"
    )
    assert shown and set(shown) == {1040 if width == 1400 else 340}
    cut_off = page.evaluate(
        "[...document.querySelectorAll('.plot svg')].filter(e => e.checkVisibility()).flatMap(svg => {"
        " const paper = svg.getBoundingClientRect(); return [...svg.querySelectorAll('text')].filter(text => {"
        "  const box = text.getBoundingClientRect();"
        "  return box.left < paper.left - 1 || box.right > paper.right + 1 || box.bottom > paper.bottom + 1;"
        " }).map(text => text.textContent); })"
    )
    assert cut_off == []


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("scheme", SCHEMES[:1])
def test_a_wide_table_scrolls_inside_itself_and_a_receipt_unfolds(page, width, scheme):
    tables = page.evaluate(
        "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert tables > 0
    page.locator("details summary", has_text="as JSON").first.click()
    assert page.locator("pre.raw").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator(".verdicts table a").first.click()
    assert page.evaluate("location.hash").startswith("#run-")


@pytest.mark.parametrize("width", WIDTHS[:1])
@pytest.mark.parametrize("scheme", SCHEMES[:1])
def test_the_browser_reads_the_same_tree_as_an_xml_parser(page, address, width, scheme):
    """Nothing is nested in a way that a browser mends by moving it."""
    text = Path(url2pathname(urlsplit(address).path)).read_text()
    written = [element.tag.rpartition("}")[2] for element in ET.fromstring(text.partition("\n")[2]).iter()]
    assert page.evaluate("[...document.querySelectorAll('*')].map(e => e.localName)") == written
