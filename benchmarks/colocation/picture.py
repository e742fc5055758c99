"""`build/colocation.png`: for each kind of offline work the day's requests, their p99 and the node's use, over time.

It is drawn from `build/colocation.json`, so kinds of work that were measured one by one are side by side.
"""

from collections.abc import Callable, Mapping
from math import log10
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image, ImageDraw, ImageFont

PNG: Final = Path("build/colocation.png")
WIDTH, HEIGHT = 560, 240
LEFT, TOP, GAP = 70, 90, 56
INK, GRID, PAPER = "#222222", "#dddddd", "#ffffff"
COLOURS: Final = {
    "alone": "#777777",
    "plain": "#e08a00",
    "ours": "#1f6fd6",
    "plain-burstable": "#c2293d",
    "ours-burstable": "#0f8f80",
    "ours-throttled": "#7a4fc9",
}
Points = list[tuple[float, float]]


class Scale(NamedTuple):
    """Hold a row of panels; `ticks`: the lines of the grid; the first and the last are the row's ends."""

    curve: str
    title: str
    ticks: tuple[float, ...]
    place: Callable[[float], float] = float


def draw(found: Mapping[str, Any]) -> None:
    """Draw all kinds of work in the results."""
    rows = _scales(found)
    size = (LEFT + len(found) * (WIDTH + GAP), TOP + len(rows) * (HEIGHT + GAP))
    image = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(image)
    _legend(pen)
    for column, (kind, arrangements) in enumerate(found.items()):
        for row, scale in enumerate(rows):
            corner = (LEFT + column * (WIDTH + GAP), TOP + row * (HEIGHT + GAP))
            _panel(pen, corner, f"{kind}: {scale.title}", scale, _series(arrangements, scale.curve))
    PNG.parent.mkdir(exist_ok=True)
    image.save(PNG, optimize=True)


def _series(arrangements: Mapping[str, Any], curve: str) -> dict[str, Points]:
    return {
        name: [(at, y) for at, y in zip(over["at_s"], over[curve], strict=True) if curve != "p99_ms" or y]
        for name, row in arrangements.items()
        if name in COLOURS and (over := row["over_time"])
    }


def _scales(found: Mapping[str, Any]) -> tuple[Scale, ...]:
    """Return the rows; the same scale for all kinds, so that they can be compared."""
    all_series = [_series(arrangements, "p99_ms") for arrangements in found.values()]
    times = [y for series in all_series for points in series.values() for _, y in points]
    steps = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000)
    low = max((i for i, step in enumerate(steps) if step <= min(times)), default=0)
    high = next((i for i, step in enumerate(steps) if step >= max(times)), len(steps) - 1)
    counts = [
        y
        for arrangements in found.values()
        for points in _series(arrangements, "requests_a_second").values()
        for _, y in points
    ]
    most = -(-max(counts) // 500) * 500
    return (
        Scale("requests_a_second", "requests a second", tuple(most * i / 4 for i in range(5))),
        Scale("p99_ms", "p99 of the requests, ms", steps[low : high + 1], log10),
        Scale("node_use", "node's CPU time in use", (0.0, 0.25, 0.5, 0.75, 1.0)),
    )


def _panel(
    pen: ImageDraw.ImageDraw, corner: tuple[int, int], title: str, scale: Scale, series: dict[str, Points]
) -> None:
    left, top = corner
    end = max(x for points in series.values() for x, _ in points)
    low, high = scale.place(scale.ticks[0]), scale.place(scale.ticks[-1])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x, y = point
        part = (scale.place(max(y, scale.ticks[0])) - low) / (high - low)
        return left + WIDTH * x / end, top + HEIGHT * (1 - min(1.0, part))

    for tick in scale.ticks:
        y = place((0, tick))[1]
        pen.line((left, y, left + WIDTH, y), GRID)
        pen.text((left - 8, y), f"{tick:g}", INK, _font(13), anchor="rm")
    for step in range(5):
        pen.text((left + WIDTH * step / 4, top + HEIGHT + 6), f"{end * step / 4:.0f} s", INK, _font(13), "ma")
    pen.text((left, top - 8), title, INK, _font(16), anchor="ls")
    for name, points in series.items():
        pen.line([place(point) for point in points], COLOURS[name], width=2, joint="curve")


def _legend(pen: ImageDraw.ImageDraw) -> None:
    at = LEFT
    for name, colour in COLOURS.items():
        pen.line((at, 34, at + 26, 34), colour, width=4)
        pen.text((at + 34, 34), name, INK, _font(16), anchor="lm")
        at += 60 + round(pen.textlength(name, _font(16)))


def _font(size: int) -> Any:
    return ImageFont.load_default(size)
