"""What a report has: plain data, and the ways to look at it."""

from __future__ import annotations

from dataclasses import InitVar, asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tf_memsafe.limits import format_bytes
from tf_memsafe.report import figure, html, summary, text
from tf_memsafe.source import SourceLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tf_memsafe.report.program import Program

LARGEST_SHOWN = 5
"""How many of the largest tensors a report lists."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the program: its type, its size and the user's line that made it."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    op: str
    source: SourceLine | None

    @property
    def type(self) -> str:
        """`f32[20, 10]`."""
        return f"{self.dtype}{list(self.shape)}"

    def __str__(self) -> str:
        where = f"({self.op})"
        if self.source:
            library = f"  in {self.source.library}" if self.source.library else ""
            where = f"{self.source}  {self.source.code}{library}"
        return f"{format_bytes(self.bytes):>10}  {self.type}  {where}"


@dataclass(frozen=True)
class Loop:
    """A loop over chunks: the cut axis' length, how many steps of it a chunk has, and the trips.

    tensors: what no longer exists whole. axis: which axis of the first of them is cut. again: of
    the function's flops, the share that this loop computes although an earlier one has.
    """

    axis_length: int
    chunk: int
    trips: int
    tensors: tuple[Tensor, ...]
    axis: int | None = None
    again: float = 0.0

    def __str__(self) -> str:
        return f"axis of {self.axis_length:,} in {self.trips:,} chunks of {self.chunk:,}"


@dataclass(frozen=True)
class Recomputed:
    """Steps of a user's loop that are run again, in place of keeping what each of them made.

    trips: the loop's steps. kept: its state is kept once in so many steps; in a segment that is run
    again, once in the next number; and so on. Empty if nothing of a step has to be kept. again: how
    many steps are run again.
    """

    source: SourceLine | None
    trips: int
    kept: tuple[int, ...]
    again: int

    def __str__(self) -> str:
        once = ", then ".join("every step" if n == 1 else f"1 in {n:,}" for n in self.kept)
        kept = f"keeps its state of {once}" if once else "keeps nothing of its steps"
        where = _at(self.source)
        return f"a loop of {self.trips:,} steps{where} {kept}, and runs {self.again:,} again"


@dataclass(frozen=True)
class Blocker:
    """A tensor that has to exist whole, and the op that needs it so."""

    tensor: Tensor
    reason: str

    def __str__(self) -> str:
        return f"{self.tensor}\n{'':12}{self.reason}"


@dataclass(frozen=True)
class Rewritten:
    """A rule that fired: what it does, where, and the largest tensor before and after in bytes."""

    optimizer: str
    what: str
    source: SourceLine | None
    bytes_before: int
    bytes_after: int

    @property
    def saved(self) -> int:
        """Bytes by which the largest tensor is smaller now; not negative."""
        return max(0, self.bytes_before - self.bytes_after)

    def __str__(self) -> str:
        line = f"{self.optimizer}: {self.what}{_at(self.source)}"
        if not self.saved:
            return line
        before, after = map(format_bytes, (self.bytes_before, self.bytes_after))
        return f"{line} (the largest tensor: {before}, now {after})"


@dataclass(frozen=True)
class Refused:
    """What looked like a rule's pattern, and why the rule left it alone."""

    optimizer: str
    what: str
    source: SourceLine | None
    reason: str

    def __str__(self) -> str:
        return f"{self.optimizer}: not {self.what}{_at(self.source)}: {self.reason}"


def _at(source: SourceLine | None) -> str:
    return f" at {source}" if source else ""


@dataclass(frozen=True)
class Report:
    """What holding a function to a limit came to. All sizes are in bytes.

    memory_limit: None if there is none. peak_before, peak_after: arguments, results and temporaries
    as XLA's buffer assignment counts them; equal for a function that is left alone. fits: whether
    peak_after is within the limit. loops: what was cut. recomputed: which steps of the function's
    own loops are run again. largest: the largest tensors of the function as written. left: the
    largest at the peak of the new program. blockers: what could not be cut, and why. rewrites: the
    rules that fired, what saved most first. refusals: what looked like a rule's pattern, and why it
    was left alone. failures: why XLA could not compile programs that were made for the limit.
    problem: why the function is left as it is. time: how long a call takes, in units of what the
    function as written takes, as the planner estimates it; None where it does not.
    stablehlo: the text of the rewritten program, or of the original where there was no need.

    Example:
        report = tf_memsafe.explain(knn, queries, points, memory_limit="1GB")
        print(report)
        report.plot().savefig("knn.png")
        report.save("knn.html")
    """

    name: str
    memory_limit: int | None
    peak_before: int
    peak_after: int
    fits: bool
    loops: tuple[Loop, ...] = ()
    recomputed: tuple[Recomputed, ...] = ()
    largest: tuple[Tensor, ...] = ()
    left: tuple[Tensor, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    rewrites: tuple[Rewritten, ...] = ()
    refusals: tuple[Refused, ...] = ()
    failures: tuple[str, ...] = ()
    problem: str | None = None
    time: float | None = None
    stablehlo: str = field(default="", repr=False)
    program: InitVar[Program | None] = None
    """What plots and listings are made of."""

    def __post_init__(self, program: Program | None) -> None:
        vars(self)["_details"] = program

    def to_dict(self) -> dict[str, Any]:
        """The report as plain dicts, lists, strings and numbers, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(text.lines(self))

    def plot(self) -> Figure:
        """A matplotlib figure of the memory in use over the program's schedule, before and after.

        It is what XLA's own simulation of the heap says; the peaks are labelled with their largest
        tensors and the user's lines.

        Raises:
            ImportError: without matplotlib (`pip install tf_memsafe[report]`).
            ValueError: for a report without such a simulation: nothing was compiled.
        """
        return figure.plot(self, self.details)

    def save(self, path: str | Path) -> Path:
        """Writes the report as one self-contained HTML file, the programs' listings included.

        Its picture needs matplotlib; without it there is none. Returns the file's path.

        Raises:
            OSError: where the file cannot be written.
        """
        path = Path(path)
        path.write_text(self.to_html(), encoding="utf-8")
        return path

    def to_html(self) -> str:
        """The page that `save` writes."""
        return html.page(self, self.details)

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return html.fragment(self, self.details)

    def to_summary(self, writer: Any, step: int = 0) -> None:
        """Writes the report for TensorBoard: its text, its picture and the new program as a graph.

        writer: of `tf.summary.create_file_writer`. The picture needs matplotlib.

        Example: `report.to_summary(tf.summary.create_file_writer("logs"))`
        """
        summary.write(self, self.details, writer, step)

    @property
    def details(self) -> Program | None:
        """The programs before and after, which the pictures and listings are made of."""
        found: Program | None = vars(self)["_details"]
        return found
