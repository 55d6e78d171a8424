"""The page: all of the report, both listings, the user's lines, and nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.programs import place_of
from tests.report import reports
from tf_memsafe import Report
from tf_memsafe.report.tags import html, table, tag

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """The elements of a page, and its text; it fails where one is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, Any]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self._open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self._open.pop() == name

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, attribute: str) -> list[str]:
        return [found[attribute] for _, found in self.elements if attribute in found]


def page(report: Report) -> Page:
    return Page(report.to_html())


def test_every_kind_of_report_is_a_page() -> None:
    for report in (reports.cut(), reports.blocked(), reports.fitting(), reports.rewritten()):
        assert report.name in page(report).text
    assert "Could not be cut" in page(reports.blocked()).text
    assert "cholesky needs it whole" in page(reports.too_large_to_compile()).text
    assert "f" in page(Report("f", 10, 20, 5, True)).text


def test_it_needs_nothing_from_elsewhere() -> None:
    found = page(reports.cut())
    assert all(source.startswith("data:") for source in found.values("src"))
    assert all(address.startswith(("#", "file:")) for address in found.values("href"))
    assert "script" not in {name for name, _ in found.elements}


def test_links_lead_to_the_users_lines() -> None:
    found = page(reports.cut())
    targets = {address[1:] for address in found.values("href") if address.startswith("#")}
    assert targets <= set(found.values("id"))
    assert place_of(reports.kernel, "distances =").rpartition("/")[2].replace(":", "-") in targets
    assert "near = tf.cast(distances < 1, F64)" in found.text


def test_listings_fold_and_mark_what_changed() -> None:
    text = reports.cut().to_html()
    before, after = re.findall(r"(?s)<h2>The program as .*?</h2>.*?(?=<h2>)", text)
    assert "while(" in after
    assert "while(" not in before
    for listing in (before, after):
        assert listing.count("<details") >= 2
        assert 0 < listing.count('class="line changed"') < listing.count('class="line')


def test_nothing_is_marked_where_nothing_changed() -> None:
    assert 'class="line changed"' not in reports.fitting().to_html()


def test_refusals_are_in_it() -> None:
    assert "in 3 dimensions the differences are faster" in page(reports.rewritten()).text


def test_a_notebook_has_the_picture_and_no_listings() -> None:
    text = reports.cut()._repr_html_()
    assert 'src="data:image/svg+xml;base64,' in text
    assert "The program as" not in text
    assert Page(text).elements[0] == ("div", {"class": "tf-memsafe"})


def test_it_is_saved(tmp_path: Path) -> None:
    path = reports.cut().save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == reports.cut().to_html()
    assert reports.cut().save(str(path)) == path


def test_text_is_escaped() -> None:
    report = Report("<b>", 10, 20, 5, True, problem="a < b & c")
    assert "a &lt; b &amp; c" in report.to_html()
    assert "<b>" not in report.to_html()


def test_text_goes_where_it_is_written() -> None:
    assert html(tag("p", "a ", tag("b", "c"), " d", None)) == "<p>a <b>c</b> d</p>"


def test_columns_of_numbers_are_marked() -> None:
    text = html(table(("name", "bytes "), [("x", "10")]))
    assert '<th class="number">bytes</th>' in text
    assert '<td class="number">10</td>' in text
