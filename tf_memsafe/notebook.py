"""Notebook magics: `%load_ext tf_memsafe`, then `%memory_limit 2GB` or `%%memory_limit 2GB`."""

from __future__ import annotations

import base64
from typing import Any

from tf_memsafe import hook
from tf_memsafe.limits import format_bytes, parse_limit
from tf_memsafe.report import Report, headline, last_reports
from tf_memsafe.report.tags import html, tag

MAGIC = "memory_limit"


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext tf_memsafe` calls.

    `%memory_limit 2GB` sets the limit of the session, `%memory_limit none` removes it, and
    `%memory_limit` alone shows it. `%%memory_limit 2GB` is for one cell. After a cell in which a
    function was rewritten, a line says so, with a link to its report.
    """
    _Notes(shell)
    shell.register_magic_function(_set_limit, "line", MAGIC)
    shell.register_magic_function(lambda line, cell: _run_cell(shell, line, cell), "cell", MAGIC)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext tf_memsafe` calls: the limit is removed, too."""
    hook.set_memory_limit(None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(MAGIC, None)
    if (notes := vars(shell).pop(_Notes.ATTRIBUTE, None)) is not None:
        notes.stop()


def _set_limit(line: str) -> None:
    if line.strip():
        hook.set_memory_limit(_limit(line))
    limit = hook.get_memory_limit()
    print(f"memory limit: {'none' if limit is None else format_bytes(limit)}")


def _run_cell(shell: Any, line: str, cell: str) -> None:
    with hook.memory_limit(_limit(line)):
        result = shell.run_cell(cell)
    if not result.success:
        # The cell's own error is shown already; this one has "Run all" stop here.
        from IPython.core.error import UsageError  # noqa: PLC0415  # there is a notebook, so it is

        raise UsageError(f"the cell under %%{MAGIC} has failed")


def _limit(line: str) -> int | None:
    text = line.strip().strip("\"'")
    if text.isdecimal():
        return parse_limit(int(text))
    return parse_limit(None if text.lower() == "none" else text)


class _Notes:
    """Shows a note after each cell in which functions were rewritten."""

    ATTRIBUTE = "_tf_memsafe_notes"

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._seen = {id(report): report for report in last_reports()}
        if not hasattr(shell, self.ATTRIBUTE):
            setattr(shell, self.ATTRIBUTE, self)
            shell.events.register("post_run_cell", self.show)

    def show(self, *_: Any) -> None:
        from IPython.display import HTML, display  # noqa: PLC0415

        for report in last_reports():
            if id(report) not in self._seen:
                self._seen[id(report)] = report
                display(HTML(_note(report)))

    def stop(self) -> None:
        self._shell.events.unregister("post_run_cell", self.show)


def _note(report: Report) -> str:
    """One line, with the whole report as a page inside its link."""
    page = base64.b64encode(report.to_html().encode()).decode()
    link = tag("a", "report", href=f"data:text/html;base64,{page}", download=f"{report.name}.html")
    link.set("target", "_blank")
    return html(tag("div", f"tf_memsafe: {headline(report)} (", link, ")"))
