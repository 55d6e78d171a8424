"""Prints, after the tests, what became of the corpus."""

from __future__ import annotations

from collections import defaultdict

from _pytest.terminal import TerminalReporter


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    outcomes = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            properties = dict(getattr(report, "user_properties", ()))
            if "corpus" in properties and report.when == "call":
                outcomes[properties["corpus"]].append(report.nodeid.partition("[")[2][:-1])
    if not outcomes:
        return
    terminalreporter.section("corpus")
    for outcome, names in sorted(outcomes.items()):
        terminalreporter.line(f"{len(names)} calls: {outcome}")
        if outcome != "passes":
            for name in sorted(names):
                terminalreporter.line(f"    {name}")
