"""The report: one HTML file that explains a result document, with its plots, data and JavaScript inside.

Called by the cli with the document of a comparison or a sweep, fresh or saved. The page loads nothing: its content
security policy allows its own scripts by their hashes and forbids every connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from html import escape
from importlib import resources
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

from fairlead.measure.files import write_whole
from fairlead.measure.report.document import OUTCOMES, Document, Point, check, highlighted, points, sweep
from fairlead.measure.report.plots import Plot, over_values, plots_of
from fairlead.measure.report.static import converter
from fairlead.measure.report.style import CONFIG, Spec, by_look, look_of
from fairlead.measure.report.tables import table, tables
from fairlead.measure.report.words import listed, verdict

# What axes, legend and marks of changes take above and below a plot's own height, as measured in the browser.
_ROOM_PX = {"sweep": 54, "outcomes": 112, "over-time": 62, "latency": 54, "load": 110, "energy": 54}


def write_report(document: Document, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, page(document))


def page(document: Document) -> str:
    """The page as text."""
    check(document)
    found = points(document)
    plots = [plots_of(document, point, legend=False) for point in found]
    swept = over_values(document, legend=False)
    vega, script = _vega(), _asset("page.js")
    first = next((i for i, p in enumerate(found) if p.ranking), 0)
    return Template(_asset("page.html")).substitute(
        policy=_security_policy(vega, script),
        title=escape(_title(document)),
        subtitle=escape(_subtitle(document)),
        css=_asset("page.css"),
        notice=_notice(document),
        verdicts=_verdicts(found),
        controls=_controls(document, first),
        figures=_figures(swept, plots[first] if plots else []),
        tables="\n".join(f'<div data-label="{i}">{_heading(p)}{tables(p)}</div>' for i, p in enumerate(found)),
        settings=_settings(document),
        data=_embedded(_data(document, plots, swept)),
        vega=vega,
        script=script,
    )


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


def _data(document: Document, plots: list[list[Plot]], swept: Plot | None) -> Spec:
    """What the page's script needs."""
    labels = [
        {
            "highlighted": highlighted(document, point),
            "ranking": point.ranking,
            "plots": {plot.name: _drawn(plot) for plot in drawn},
        }
        for point, drawn in zip(points(document), plots, strict=True)
    ]
    return {"config": CONFIG, "labels": labels, "sweep": _drawn(swept) if swept else None}


def _drawn(plot: Plot) -> Spec:
    fit: Spec = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}, "background": None}
    spec = {**plot.spec, **fit} if plot.spec else None
    return {
        "caption": plot.caption,
        "finding": plot.finding,
        "findings": plot.findings,
        "notes": plot.notes,
        "height": _height(plot),
        "spec": spec,
    }


def _title(document: Document) -> str:
    n = len(document["settings"]["policies"])
    policies = f"{n} policies" if n != 1 else "One policy"
    labels, swept = list(document["scenarios"]), sweep(document)
    if swept:
        return f"{policies} over {len(swept[1])} values of {swept[0]}"
    return f"{policies} on {listed(labels) if len(labels) <= 3 else f'{len(labels)} scenarios'}"


def _subtitle(document: Document) -> str:
    titles = list(dict.fromkeys(p.title for p in points(document)))
    seeds = len(document["settings"]["seeds"])
    paired = f"{seeds} paired seeds" if seeds != 1 else "one seed"
    return f"{titles[0]}; {paired}" if len(titles) == 1 and titles[0] else paired


def _notice(document: Document) -> str:
    """What is missing, before anything else is said."""
    asked = len(document["settings"]["seeds"])
    lines = [f"Stopped early: {document['stopped']}."] if document.get("stopped") else []
    lines += [f"{p.label}: {p.seeds} of {asked} seeds are finished." for p in points(document) if p.seeds < asked]
    lines += [f"{policy} failed and is left out: {line}" for policy, line in (document.get("failures") or {}).items()]
    if not lines and document.get("complete", True):
        return ""
    body = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<div class="notice" role="note"><p><strong>This result is not complete.</strong></p>{body}</div>'


def _verdicts(found: list[Point]) -> str:
    return f'<dl class="verdicts">{"".join(map(_verdict, found))}</dl>'


def _verdict(point: Point) -> str:
    text, best = verdict(point), point.ranking[0] if point.ranking else ""
    strong = f"<strong>{escape(best)}</strong>{escape(text.removeprefix(best))}"
    return f"<dt>{escape(point.label)}</dt><dd>{strong}</dd>\n"


def _heading(point: Point) -> str:
    return f"<h3>{escape(point.label)}</h3>\n"


def _controls(document: Document, first: int) -> str:
    swept, labels = sweep(document), list(document["scenarios"])
    options = "".join(
        f'<option value="{i}"{" selected" if i == first else ""}>{escape(label)}</option>'
        for i, label in enumerate(labels)
    )
    name, hidden = escape(swept[0]) if swept else "Scenario", " hidden" if len(labels) == 1 else ""
    policies = "\n".join(_checkbox(i, policy) for i, policy in enumerate(by_look(document)))
    return f"""<details open><summary>Choose what is shown</summary>
<p class="field"{hidden}><label for="label">{name}</label><select id="label">{options}</select></p>
<fieldset class="policies"><legend>Policies</legend>
<p class="hint">Checked ones are drawn as lines, and stand out where all are drawn.</p>
{policies}
</fieldset>
<div class="presets"><button type="button" data-preset="best">Best</button>
<button type="button" data-preset="all">All</button><button type="button" data-preset="none">None</button></div>
</details>"""


def _checkbox(index: int, policy: str) -> str:
    colour, dash, shape = look_of(index)
    marks = {
        "circle": '<circle cx="14" cy="6" r="3.5"/>',
        "square": '<path d="M11 3h6v6h-6z"/>',
        "triangle-up": '<path d="M14 2l4 7h-8z"/>',
    }
    swatch = (
        f'<svg width="28" height="12" aria-hidden="true" fill="{colour}" stroke="{colour}">{marks[shape]}'
        f'<path d="M0 6h28" stroke-width="2" stroke-dasharray="{dash[0]} {dash[1]}"/></svg>'
    )
    return f'<label><input type="checkbox" value="{escape(policy)}">{swatch}<span>{escape(policy)}</span></label>'


def _figures(swept: Plot | None, drawn: list[Plot]) -> str:
    if not drawn:
        return '<p>No seed is finished, so there is nothing to draw.</p><select id="chosen" hidden></select>'
    measures = "".join(f"<option>{name}</option>" for name in OUTCOMES)
    measure = '<p class="chooser"><label for="{0}">Show</label><select class="measure" id="{0}">{1}</select></p>'
    choosers = {plot: measure.format(f"{plot}-measure", measures) for plot in ("sweep", "over-time")}
    choosers["load"] = '<p class="chooser"><label for="chosen">Policy</label><select id="chosen"></select></p>'
    return "\n".join(_figure(p, choosers.get(p.name, "")) for p in [*([swept] if swept else []), *drawn])


def _figure(plot: Plot, chooser: str) -> str:
    notes = "".join(f"<li>{escape(note)}</li>" for note in plot.notes)
    return f"""<figure data-plot="{plot.name}" aria-labelledby="{plot.name}-title">
<div class="heading"><h3 id="{plot.name}-title">{escape(plot.title)}</h3>{chooser}</div>
<p class="caption">{escape(plot.caption)}</p>
<div class="plot" role="img" aria-label="{escape(plot.finding)}" style="min-height: {_height(plot)}px"><div></div></div>
<p class="failed" hidden>This plot could not be drawn; the tables below have its numbers.</p>
<ol class="notes">{notes}</ol>
</figure>"""


def _height(plot: Plot) -> int:
    """Room for the plot before it is drawn, so that nothing moves when it is."""
    return int(plot.spec["height"]) + _ROOM_PX[plot.name] if plot.spec else 0


def _settings(document: Document) -> str:
    settings, swept = document["settings"], sweep(document)
    rows = {
        "Seeds": _ranges(settings["seeds"]),
        "Changed": ", ".join(settings.get("set") or []) or "nothing",
        **({"Swept": f"{swept[0]} over {', '.join(map(str, swept[1]))}"} if swept else {}),
        "Versions": ", ".join(
            f"{k} {v}" for k, v in {"fairlead": document["fairlead"], **document["versions"]}.items()
        ),
    }
    listed_rows = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in rows.items())
    policies = document["policies"]
    columns = {"policy": list(policies)} | {
        key: [str(p.get(key, "")) for p in policies.values()] for key in ("package", "kind", "hash")
    }
    code = (
        f"<details><summary>Policies: package, kind, hash of their code</summary>{table('Policies', columns)}</details>"
    )
    return "\n".join([f'<dl class="settings">{listed_rows}</dl>', code, *_assumptions(points(document))])


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and all(b - a == 1 for a, b in pairwise(seeds)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _assumptions(found: list[Point]) -> Iterator[str]:
    """The assumptions of each scenario; labels that assume the same share a list."""
    labels: dict[tuple[str, ...], list[str]] = {}
    for point in found:
        labels.setdefault(tuple(point.body["assumptions"]), []).append(point.label)
    for assumptions, names in labels.items():
        items = "".join(f"<li>{escape(a)}</li>" for a in assumptions)
        title = f"{len(assumptions)} assumptions of {listed(names)}"
        yield f'<details><summary>{escape(title)}</summary><ul class="assumptions">{items}</ul></details>'
