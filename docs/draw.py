"""Draws the pictures of the documentation, into docs/pages/pictures: `python docs/draw.py`.

They have a background of their own, so that they read the same on light pages and on dark ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parent / "pages" / "pictures"

INK, SOFT, PAPER, LINE = "#1f2430", "#5b6472", "#fbfbfd", "#9aa3b2"
BLUE, PALE_BLUE = "#3f51b5", "#dfe3f6"
ORANGE, PALE_ORANGE = "#d9730d", "#fbe6d0"
GREEN, PALE_GREEN = "#2e7d4f", "#d9eee1"
RED = "#c62828"


class Picture:
    """An SVG file in the making; lengths are in pixels, from the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self._size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        self._parts = [f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>']

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, line: str = LINE,
        dashed: bool = False, corner: int = 3,
    ) -> None:  # fmt: skip
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner}" '
            f'fill="{fill}" stroke="{line}" stroke-width="1.5"{dash}/>'
        )

    def text(
        self, x: float, y: float, words: str, size: int = 14, colour: str = INK,
        anchor: str = "middle", bold: bool = False,
    ) -> None:  # fmt: skip
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
        )

    def line(self, points: list[tuple[float, float]], colour: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
        )

    def area(self, points: list[tuple[float, float]], fill: str) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._parts.append(f'<polygon points="{path}" fill="{fill}"/>')

    def arrow(self, x: float, y: float, to_x: float, to_y: float, colour: str = SOFT) -> None:
        """A straight arrow, along one of the axes."""
        self.line([(x, y), (to_x, to_y)], colour)
        back = 8 if to_x + to_y > x + y else -8
        if y == to_y:
            tip = [(to_x, y), (to_x - back, y - 4.5), (to_x - back, y + 4.5)]
        else:
            tip = [(x, to_y), (x - 4.5, to_y - back), (x + 4.5, to_y - back)]
        self.area(tip, colour)

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} font-family="sans-serif">'
        return "\n".join([head, *self._parts, "</svg>"]) + "\n"


def strips() -> Picture:
    """A kernel matrix times a vector, strip by strip."""
    picture = Picture(720, 300)
    top, side, strip = 60, 180, 45
    y = top + 1 * strip
    picture.text(70, 40, "x")
    picture.box(50, top, 40, side, PALE_BLUE, BLUE)
    picture.box(50, y, 40, strip, BLUE, BLUE)
    picture.text(250, 40, "exp(-|x - y|²)")
    picture.box(160, top, side, side, "none", LINE, dashed=True)
    picture.box(160, y, side, strip, PALE_ORANGE, ORANGE)
    picture.text(250, y + 28, "one chunk", colour=ORANGE, bold=True)
    picture.text(250, top + 130, "never whole", colour=SOFT)
    picture.arrow(95, y + strip / 2, 155, y + strip / 2, BLUE)
    picture.text(372, top + side / 2 + 8, "·", size=24)
    picture.text(415, 40, "v")
    picture.box(400, top, 30, side, PALE_BLUE, BLUE)
    picture.text(465, top + side / 2 + 8, "=", size=24)
    picture.text(525, 40, "result")
    picture.box(510, top, 30, side, PALE_GREEN, GREEN)
    picture.box(510, y, 30, strip, GREEN, GREEN)
    picture.text(565, y + 20, "is written where", size=13, colour=SOFT, anchor="start")
    picture.text(565, y + 38, "the chunk was", size=13, colour=SOFT, anchor="start")
    picture.text(360, 275, "next chunk: the same again, in the same memory", colour=SOFT)
    return picture


STAGES = (
    ("read", "XLA's program", "becomes a graph"),
    ("rewrite", "better nodes in", "place of others"),
    ("plan", "axes and chunks,", "on sizes alone"),
    ("write", "the graph as", "StableHLO"),
    ("prove", "XLA compiles it", "and counts"),
)


def pipeline() -> Picture:
    """From a call to the program that runs."""
    picture = Picture(760, 290)
    picture.box(20, 20, 170, 40, PALE_BLUE, BLUE, corner=20)
    picture.text(105, 45, "a tf.function is called")
    picture.arrow(105, 60, 105, 105)
    for index, (name, *words) in enumerate(STAGES):
        x = 20 + 148 * index
        picture.box(x, 110, 128, 80, "white", INK)
        picture.text(x + 64, 132, name, bold=True)
        for row, line in enumerate(words):
            picture.text(x + 64, 153 + 18 * row, line, size=12, colour=SOFT)
        if index:
            picture.arrow(x - 20, 150, x - 2, 150)
    picture.line([(64, 190), (64, 235)], GREEN)
    picture.arrow(64, 235, 92, 235, GREEN)
    picture.text(100, 240, "it fits already: it runs as it was written", size=13, anchor="start")
    picture.arrow(676, 110, 676, 65, GREEN)
    picture.text(676, 40, "within the limit:", size=13)
    picture.text(676, 57, "it runs", size=13)
    picture.line([(676, 190), (676, 212), (408, 212)], ORANGE)
    picture.arrow(408, 212, 408, 194, ORANGE)
    picture.text(545, 206, "not yet: cut more", size=12, colour=ORANGE)
    picture.arrow(710, 190, 710, 250, RED)
    picture.text(
        740, 270, "cannot be cut further: MemoryLimitError", size=13, colour=RED, anchor="end"
    )
    return picture


def memory() -> Picture:
    """What a call needs over time, before and after."""
    picture = Picture(720, 310)
    left, base, right = 70, 260, 690
    picture.line([(left, 30), (left, base), (right, base)], INK)
    picture.text(left - 8, 40, "bytes", size=13, anchor="end")
    picture.text(right, base + 22, "the program's schedule", size=13, anchor="end")
    before = [(70, 240), (150, 240), (150, 190), (230, 190), (230, 50), (370, 50), (370, 110)]
    before += [(470, 110), (470, 225), (680, 225)]
    picture.area([(left, base), *before, (680, base)], PALE_ORANGE)
    picture.line(before, ORANGE)
    picture.text(300, 38, "as it was written", colour=ORANGE, bold=True)
    after = [(70, 240), (150, 240)]
    for chunk in range(8):
        x = 150 + 45 * chunk
        after += [(x, 205), (x + 30, 205), (x + 30, 232), (x + 45, 232)]
    after += [(510, 225), (680, 225)]
    picture.area([(left, base), *after, (680, base)], PALE_GREEN)
    picture.line(after, GREEN)
    picture.text(330, 250, "in chunks", colour=GREEN, bold=True)
    picture.line([(left, 165), (right, 165)], RED, dashed=True)
    picture.text(right, 158, "the limit", colour=RED, anchor="end", bold=True)
    picture.text(380, 295, "A sketch. What counts is the highest point.", size=13, colour=SOFT)
    return picture


def spread() -> Picture:
    """How one axis, chosen in the largest tensor, spreads to what it is connected to."""
    picture = Picture(760, 330)
    columns = (("Q", 40, 36), ("scores", 190, 150), ("softmax", 390, 150), ("output", 620, 36))
    top, side, strip, row = 70, 130, 30, 40
    for name, x, width in columns:
        large = width > 100
        dashed, fill, line = (True, "none", LINE) if large else (False, PALE_BLUE, BLUE)
        picture.text(x + width / 2, 55, name, bold=True)
        picture.box(x, top, width, side, fill, line, dashed)
        picture.box(x, top + row, width, strip, PALE_ORANGE, ORANGE)
    y = top + row + strip / 2
    for start, end in ((78, 186), (342, 386), (542, 616)):
        picture.arrow(start, y, end, y, ORANGE)
    picture.text(265, y + 5, "chosen here", size=13, colour=ORANGE, bold=True)
    picture.text(465, y + 5, "the same rows", size=13, colour=ORANGE)
    for name, x, to in (("K", 240, 265), ("V", 560, 580)):
        picture.box(x, 235, 50, 36, PALE_BLUE, BLUE)
        picture.text(x + 25, 258, name, bold=True)
        picture.arrow(to, 235, to, y + 20 if name == "K" else y + 4, BLUE)
    picture.text(300, 258, "needed whole: small", size=13, colour=SOFT, anchor="start")
    picture.text(
        380, 305, "In the gradient, dQ follows the same rows; dK and dV are summed over them.",
        size=13, colour=SOFT,
    )  # fmt: skip
    return picture


def sgpr() -> Picture:
    """SGPR's value and gradient: two loops over the data with a small factor between."""
    picture = Picture(760, 300)
    for x, title, second in ((60, "first loop", False), (500, "second loop", True)):
        picture.text(x + 100, 40, title, bold=True)
        picture.box(x, 60, 200, 70, "none", LINE, dashed=True)
        picture.box(x + 75, 60, 45, 70, PALE_ORANGE, ORANGE)
        picture.text(x + 100, 150, "K(Z, X), M x N: one chunk of data", size=12, colour=SOFT)
        if second:
            picture.text(x + 100, 172, "is made again", size=12, colour=SOFT)
        picture.arrow(x + 97, 160 if not second else 180, x + 97, 215, GREEN)
    picture.box(122, 220, 70, 60, PALE_GREEN, GREEN)
    picture.text(157, 247, "M x M", bold=True)
    picture.text(157, 265, "sum", size=12)
    picture.arrow(195, 250, 325, 250, GREEN)
    picture.box(330, 215, 100, 70, "white", INK)
    picture.text(380, 245, "Cholesky", bold=True)
    picture.text(380, 263, "whole, small", size=12, colour=SOFT)
    picture.line([(430, 230), (465, 230), (465, 95)], GREEN)
    picture.arrow(464, 95, 497, 95, GREEN)
    picture.box(540, 220, 120, 60, PALE_GREEN, GREEN)
    picture.text(600, 247, "gradients", bold=True)
    picture.text(600, 265, "summed", size=12)
    return picture


def checkpoints() -> Picture:
    """The gradient of a long loop: some states are kept, the rest is run again."""
    picture = Picture(720, 230)
    for step in range(13):
        x = 40 + 52 * step
        kept = step % 4 == 0
        fill, line = (GREEN, GREEN) if kept else ("white", LINE)
        picture.box(x, 55, 32, 32, fill, line, corner=16, dashed=not kept)
        if step < 12:
            picture.arrow(x + 33, 71, x + 51, 71)
    picture.text(40, 38, "forward: the state of 1 step in 4 is kept", anchor="start", bold=True)
    for step in range(8, 13):
        x = 40 + 52 * step
        picture.box(x, 125, 32, 32, GREEN if step == 8 else PALE_ORANGE, ORANGE, corner=16)
        if step < 12:
            picture.arrow(x + 33, 141, x + 51, 141, ORANGE)
    picture.text(440, 146, "run again from there, then gone through backwards", anchor="end")
    picture.arrow(472, 88, 472, 121, GREEN)
    picture.arrow(690, 185, 456, 185, BLUE)
    picture.text(440, 190, "the gradient of these four steps; then the four before", anchor="end")
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "strips": strips,
    "pipeline": pipeline,
    "memory": memory,
    "spread": spread,
    "sgpr": sgpr,
    "checkpoints": checkpoints,
}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg())
