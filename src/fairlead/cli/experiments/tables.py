"""The tables of `fairlead compare` on a terminal: what stands above and below them, how many columns fit side by side.

Figures, headings and verdicts come from `measure.report`, as those of the page do. Nothing is cut or left out: columns
that do not fit go on in a further table. Other commands take the frame and `print_columns` from here.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairlead.cli.standard_streams import encodable
from fairlead.domain.errors import printable
from fairlead.measure.numerals import counted
from fairlead.measure.report.document import Document, Point
from fairlead.measure.report.phrases import fell_back
from fairlead.measure.report.report_adapter import adapter_of
from fairlead.measure.report.tables import Columns

_LEAST = 14  # characters of a name, however narrow the terminal is


def show_comparison(out: Console, document: Document, given: Sequence[str]) -> None:
    """Print a comparison; `given` are the scenarios as the user named them."""
    adapter = adapter_of(document)
    for point, name in zip(adapter.points(document), given, strict=True):
        head(out, point.label, point.title, point.workload, document["settings"]["set"])
        if point.ranking:
            number = point.figure(point.ranking[0], f"{point.noun}s").mean
            out.print(seeds_in_words([point], f" of {counted(number, point.noun)}"))
        out.print(escape(adapter.verdict(point).removesuffix(fell_back(point))))  # a line about that comes later
        compared = [table for table in adapter.tables(point) if table.compares]
        for _, group in groupby(compared, key=lambda table: table.rows):
            same = list(group)
            shown = {heading: cells for table in same for heading, cells in table.columns.items()}
            print_columns(out, shown, bold=point.ranking[0], together=same[0].together)
        foot(out, point.body["assumptions"], name)
    failed(out, document)


def seeds_in_words(points: Sequence[Point], what: str = "") -> str:
    """What the figures are means of."""
    least, most = min(p.seeds for p in points), max(p.seeds for p in points)
    if most == 1:
        return f"1 seed{what}, so no interval"
    number = str(most) if least == most else f"{least} to {most}"
    return f"{number} paired seeds{what}{' each' * bool(what)}; mean and 95 % interval"


def head(out: Console, name: str, title: str, workload: str = "", overrides: Sequence[str] = ()) -> None:
    """What was run."""
    out.print(f"[bold]{escape(name)}[/bold]: {escape(title)}")
    changed = f"with {', '.join(overrides)}" if overrides else ""
    if words := "; ".join(filter(None, (workload, changed))):
        out.print(escape(words))


def foot(out: Console, assumed: Sequence[str], name: str) -> None:
    """What is assumed, counted by section; `assumed` are lines that begin with the path of a number."""
    sections = Counter(line.split(":")[0].split(".")[0] for line in assumed)
    counts = ", ".join(f"{n} in {section}" for section, n in sections.items())
    words = f"assumed: {counts}; all {len(assumed)}" if assumed else "nothing is assumed; the sources of all numbers"
    out.print(f"[dim]{escape(words)}: fairlead show {escape(name)}[/dim]\n")


def failed(out: Console, document: Document) -> None:
    """Which policies have no figures."""
    for policy in document["failures"]:
        out.print(f"[red]failed[/red]: {escape(policy)}")


def print_columns(out: Console, columns: Columns, bold: str = "", together: int = 0) -> None:
    """As many columns side by side as fit, the others in tables below; the first names the rows of each of them.

    `together` columns after the first are kept side by side, with names wrapped at their hyphens, where that suffices.
    """
    columns = {_plain(out, heading): [_plain(out, cell) for cell in cells] for heading, cells in columns.items()}
    (names, rows), *others = columns.items()
    widths = {heading: _width(heading, cells, out.width) for heading, cells in columns.items()}
    widest = max((widths[heading] for heading, _ in others), default=0)
    widths[names] = min(widths[names], max(_LEAST, out.width - widest - 7))  # 7: frame and space of two columns
    kept = _side_by_side(columns, widths, out.width, together)
    if kept:
        out.print(_table(*kept, bold))
        others = others[together:]
    part = {names: rows}
    for heading, cells in others:
        if len(part) > 1 and 1 + sum(3 + widths[h] for h in (*part, heading)) > out.width:
            out.print(_table(part, widths, bold))
            part = {names: rows}
        part[heading] = cells
    if len(part) > 1 or not kept:
        out.print(_table(part, widths, bold))


def _side_by_side(
    columns: Columns, widths: dict[str, int], available: int, together: int
) -> tuple[Columns, dict[str, int]] | None:
    """The first columns with names wrapped, and their widths; None where they fit as they are, or not even so."""
    (names, rows), *others = list(columns.items())[: together + 1]
    room = available - 4 - sum(3 + widths[heading] for heading, _ in others)  # 4: frame and space of the names
    if not others or room >= widths[names] or room < max(map(_longest_part, (names, *rows))):
        return None
    return {names: [_wrapped(name, room) for name in rows]} | dict(others), widths | {names: room}


def _plain(out: Console, text: str) -> str:
    """As `out` prints it, which may be wider."""
    return encodable(printable(text), out.encoding)


def _width(heading: str, cells: Sequence[str], available: int) -> int:
    """How wide a column is: numbers stay whole; words take a quarter of the terminal, or the longest of them."""
    width = max(map(cell_len, cells), default=0)
    if _words(cells):
        width = max(min(width, available // 4), *(cell_len(word) for cell in cells for word in cell.split()))
    return max(width, *map(cell_len, _with_unit(heading).split(" ")))


def _with_unit(heading: str) -> str:
    """The heading, in which a unit stays beside its word: rich and textwrap don't break there."""
    return heading.replace(", ", ",\N{NO-BREAK SPACE}")


def _same(wrapped: str, name: str) -> bool:
    """Whether it is that name, however it was wrapped."""
    return "".join(wrapped.split()) == "".join(name.split())


def _longest_part(name: str) -> int:
    """The width of a name's longest line, if it is wrapped wherever that is possible."""
    return max(map(cell_len, _wrapped(name, 0).split("\n")))


def _wrapped(name: str, width: int) -> str:
    """A name in lines that end at its spaces and hyphens; all but the first are indented."""
    lines = [""]
    for part in re.split(r"(?<=[- ])(?=.)", name):
        if lines[-1].strip() and cell_len(lines[-1] + part.rstrip()) > width:
            lines.append(" ")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def _words(cells: Sequence[str]) -> bool:
    return any(" " in cell and any(map(str.isalpha, cell)) for cell in cells)


def _table(columns: Columns, widths: dict[str, int], bold: str) -> Table:
    made = Table(header_style="bold")
    for i, (heading, cells) in enumerate(columns.items()):
        lines = textwrap.wrap(_with_unit(heading), widths[heading])
        made.add_column(escape("\n".join(lines)), width=widths[heading], overflow="fold")
        made.columns[i].justify = "right" if i and not _words(cells) else "left"
    for name, *cells in zip(*columns.values(), strict=True):
        if any(cells):  # the bound has a cell in some columns only
            made.add_row(*map(escape, (name, *cells)), style="bold" if bold and _same(name, bold) else "")
    return made
