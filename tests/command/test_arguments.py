"""What is wrong with arguments is said in one line, with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from tf_memsafe.command import main
from tf_memsafe.command.arguments import VARIABLE, parse

WRONG = {
    "": "tf-memsafe: the following arguments are required: COMMAND",
    "fly": "tf-memsafe: argument COMMAND: invalid choice: 'fly'",
    "run --memory-limit 1X a.py": "run: argument --memory-limit: '1X' is not a memory limit; give ",
    "run --memory-limit 0 a.py": "run: argument --memory-limit: 0 is not a memory limit; give ",
    "run a.py": "tf-memsafe: run needs a limit: --memory-limit 8GB, or TF_MEMSAFE_LIMIT=8GB in ",
    "run --memory-limit 1MB": "tf-memsafe run: the following arguments are required: SCRIPT",
    "run --memory-limit 1MB nope.py": "tf-memsafe run: there is no script nope.py",
    "run --memory-limit 1MB -m no.such": "tf-memsafe run: there is no module no.such",
    "run --memory-limit 1MB --report /dev/null/x setup.py": "no folder /dev/null/x for reports: ",
    "run --limit 1MB a.py": "tf-memsafe: unrecognized arguments: --limit",
    "explain nope": "tf-memsafe explain: nope is no SavedModel",
    "explain nope --shape x=a": "explain: argument --shape: 'x=a' is not a shape; write it as x=",
    "doctor now": "tf-memsafe: unrecognized arguments: now",
}


def exit_code(*arguments: str) -> object:
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*line.split()) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert WRONG[line] in written.err
    assert written.err.count("\n") == 1


def test_a_wrong_limit_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, "lots")
    with pytest.raises(SystemExit, match="2"):
        main(["run", "a.py"])
    assert "'lots' is not a memory limit" in capsys.readouterr().err


def test_limits_and_shapes() -> None:
    shapes = ["--shape", "x=10,3", "--shape", "y="]
    options = parse(["explain", "folder", "--memory-limit", "1.5GiB", *shapes])
    assert options.memory_limit == 3 * 2**29
    assert dict(options.shape) == {"x": (10, 3), "y": ()}
    assert parse(["run", "--memory-limit", "1000", "a.py"]).memory_limit == 1000


def test_what_follows_the_script_is_the_scripts() -> None:
    options = parse(["run", "--memory-limit", "1kB", "a.py", "--report", "x", "-m"])
    assert (options.script, options.arguments) == ("a.py", ["--report", "x", "-m"])
    assert (options.report, options.is_module) == (None, False)


def test_help_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("run", "explain", "doctor", VARIABLE))


def test_the_folder_of_a_script_is_not_made_for_nothing(tmp_path: Path) -> None:
    assert main(["run", "--memory-limit", "1MB", str(tmp_path / "nope.py")]) == 2
    assert list(tmp_path.iterdir()) == []
