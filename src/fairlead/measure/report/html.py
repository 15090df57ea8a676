"""What every report page shares: one HTML file with its plots, data and JavaScript inside.

`comparison_page`, `degradation_page` and `explanation_page` fill it. The page loads nothing: its content security
policy allows its own scripts by their hashes and forbids every connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from fairlead.measure.report.plot_files import converter
from fairlead.measure.report.plots.plot import Plot
from fairlead.measure.report.style import CONFIG, Spec
from fairlead.measure.report.tables import Table

Parts = Mapping[str, str]  # of page.html; title and subtitle are text, the others HTML


def frame(parts: Parts, labels: list[Spec], whole: Sequence[Plot] = ()) -> str:
    """The page as text. `labels` are what a reader chooses from, with their plots; `whole` are plots of all of them."""
    vega, script = _vega(), _asset("page.js")
    data = {"config": CONFIG, "labels": labels, "whole": {plot.name: drawn(plot) for plot in whole}}
    return Template(_asset("page.html")).substitute(
        {**parts, "title": escape(parts["title"]), "subtitle": escape(parts["subtitle"])},
        policy=_security_policy(vega, script),
        css=_asset("page.css"),
        data=_embedded(data),
        vega=vega,
        script=script,
    )


def drawn(plot: Plot) -> Spec:
    """A plot as the page's script needs it."""
    fit: Spec = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}, "background": None}
    return {
        "caption": plot.caption,
        "finding": plot.finding,
        "findings": plot.findings,
        "notes": plot.notes,
        "height": _height(plot),
        "spec": {**plot.spec, **fit} if plot.spec else None,
    }


def figure(plot: Plot, chooser: str = "") -> str:
    """The place of a plot on the page."""
    notes = "".join(f"<li>{escape(note)}</li>" for note in plot.notes)
    return f"""<figure data-plot="{plot.name}" aria-labelledby="{plot.name}-title">
<div class="heading"><h3 id="{plot.name}-title">{escape(plot.title)}</h3>{chooser}</div>
<p class="caption">{escape(plot.caption)}</p>
<div class="plot" role="img" aria-label="{escape(plot.finding)}" style="min-height: {_height(plot)}px"><div></div></div>
<p class="failed" hidden>This plot could not be drawn; the tables below have its numbers.</p>
<ol class="notes">{notes}</ol>
</figure>"""


def label_chooser(name: str, labels: Sequence[str], first: int) -> str:
    """The choice of what the plots and tables are of."""
    options = "".join(
        f'<option value="{i}"{" selected" if i == first else ""}>{escape(label)}</option>'
        for i, label in enumerate(labels)
    )
    hidden = " hidden" if len(labels) == 1 else ""
    return (
        f'<p class="field"{hidden}><label for="label">{escape(name)}</label><select id="label">{options}</select></p>'
    )


def pairs(name: str, rows: Parts) -> str:
    """Names (text) with what belongs to them (HTML)."""
    return f'<dl class="{name}">{"".join(f"<dt>{escape(k)}</dt><dd>{v}</dd>" for k, v in rows.items())}</dl>'


def assumptions(title: str, items: Sequence[str]) -> str:
    """A list that opens."""
    listed = "".join(f"<li>{escape(a)}</li>" for a in items)
    return f'<details><summary>{escape(title)}</summary><ul class="assumptions">{listed}</ul></details>'


def details(table: Table, is_open: bool) -> str:
    """A table that opens."""
    opens = " open" if is_open else ""
    return f"<details{opens}><summary>{escape(table.title)}</summary>\n{scrolling(table)}\n</details>"


def scrolling(table: Table) -> str:
    """A table that scrolls in its own box."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in table.columns)
    rows = [
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in zip(*table.columns.values(), strict=True)
    ]
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>\n" + "\n".join(rows) + "\n</tbody></table></div>"
    )


def versions(document: Mapping[str, Any]) -> str:
    """What a document was made with, in words."""
    return ", ".join(f"{k} {v}" for k, v in {"fairlead": document["fairlead"], **document["versions"]}.items())


def _height(plot: Plot) -> int:
    """Room for the plot before it is drawn, so that nothing moves when it is."""
    return int(plot.spec["height"]) + plot.room_px if plot.spec else 0


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed, put together as one script."""
    return str(converter().javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _asset(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _security_policy(*scripts: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{h}'" for h in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def _embedded(data: Any) -> str:
    """JSON that no parser of HTML takes for markup."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
