"""Colours, dashes and the Vega config that all plots share, on the page and in files.

The page recolours axes, texts and marks named `ink_...` by CSS for its dark theme; what is set here is the light one.
"""

from __future__ import annotations

from typing import Any

from fairlead.measure.report.document import Document, by_rank, highlighted, points

Spec = dict[str, Any]

# Found by search: at least 3:1 against white and the dark page, and apart (CIELAB distance 31 or more) for normal
# vision, protanopia, deuteranopia and tritanopia (matrices of Machado et al. 2009). No sixth hue is that far apart.
HUES = ("#695cb1", "#e37407", "#2d9ba1", "#945d41", "#b40aff")
DASHES = ((1, 0), (7, 3), (2, 2))  # the second and third round of the hues
SHAPES = ("circle", "square", "triangle-up")

OUTCOME_COLOURS = {"success": "#2b6a99", "late": "#e0a12e", "inaccurate": "#a8527f", "rejected": "#9aa1a9"}
POWER_COLOURS = {
    "no privileges": "#2b6a99",
    "knows progress or speed": "#e0a12e",
    "resizes or pre-empts": "#a8527f",
    "knows, and resizes or pre-empts": "#9aa1a9",
}  # of task policies
INK, MUTED, GRID = "#1c2126", "#59626c", "#e3e6ea"
LOAD_COLOURS = ("rgba(43,106,153,0.05)", "rgba(43,106,153,1)", "rgba(213,84,0,0.8)", "rgba(213,84,0,1)")
BUSY_COLOURS = LOAD_COLOURS[:2]

CONFIG: Spec = {
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "aria": False,  # a plot has one text alternative; a label for each mark would drown it
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 11,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelLimit": 170,
        "gridColor": GRID,
        "domainColor": "#aab1b9",
        "tickColor": "#aab1b9",
    },
    "legend": {"labelColor": MUTED, "titleColor": MUTED, "labelFontSize": 11, "titleFontSize": 11, "labelLimit": 220},
    "title": {"color": INK, "subtitleColor": MUTED, "anchor": "start", "fontSize": 15, "subtitleFontSize": 12},
}


def look_of(index: int) -> tuple[str, tuple[int, int], str]:
    """Colour, dash and shape of the policy at that place; the first fifteen differ."""
    turn = index // len(HUES) % len(DASHES)
    return HUES[index % len(HUES)], DASHES[turn], SHAPES[turn]


def fill_of(index: int) -> str:
    """The colour of an area at that place: the hue of a line there, paler where that would be dashed."""
    hue, turn = HUES[index % len(HUES)], index // len(HUES) % len(DASHES)
    red, green, blue = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{(1, 0.55, 0.25)[turn]})"


def free_fill(wanted: int, taken: list[int]) -> int:
    """A place whose area's colour none of the taken ones has: with the hue of the wanted place, or else the next."""
    places = [*range(wanted % len(HUES), len(HUES)), *range(len(HUES)), *range(len(HUES), len(HUES) * len(DASHES))]
    return next((place for place in places if place not in taken), wanted)


def by_look(document: Document) -> list[str]:
    """Policies by rank, moved such that those that stand out together differ in their hue."""
    together = [set(highlighted(document, point)) for point in points(document)]
    order = by_rank(document)
    placed: dict[int, str] = {}
    for name in order:
        near = set().union(*(group for group in together if name in group))
        taken = {look_of(place)[0] for place, other in placed.items() if other in near}
        free = [place for place in range(len(order)) if place not in placed]
        placed[next((place for place in free if look_of(place)[0] not in taken), free[0])] = name
    return [placed[place] for place in range(len(order))]


def policy_channels(policies: list[str], legend: Spec | None, channels: tuple[str, ...]) -> Spec:
    """Encodings that tell policies apart (`color`, `strokeDash`, `shape`), with that legend or none."""
    looks = [look_of(i) for i in range(len(policies))]
    ranges: Spec = {
        "color": [colour for colour, _, _ in looks],
        "strokeDash": [list(dash) for _, dash, _ in looks],
        "shape": [shape for _, _, shape in looks],
    }
    return {
        channel: {
            "field": "policy",
            "type": "nominal",
            "scale": {"domain": policies, "range": ranges[channel]},
            "legend": legend,
        }
        for channel in channels
    }
