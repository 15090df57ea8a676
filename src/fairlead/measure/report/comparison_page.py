"""The report of a comparison or a sweep: verdicts, plots, tables, how it was made. Called by the cli."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise
from pathlib import Path

from fairlead.measure.numerals import counted
from fairlead.measure.report.document import Document, Point, about_each, highlighted, points, sweep, what_ran
from fairlead.measure.report.html import assumptions, details, drawn, figure, frame, label_chooser, pairs, versions
from fairlead.measure.report.phrases import listed
from fairlead.measure.report.plots import Plot
from fairlead.measure.report.report_adapter import adapter_of
from fairlead.measure.report.style import Spec, by_look, look_of
from fairlead.measure.report.tables import Table
from fairlead.measure.write_files import write_whole

_ABOUT_TABLES = """<p>Means over the seeds ± the half width of their 95 % interval (Student's t; one seed has none).
<em>Behind best</em> is the mean of the differences seed by seed; where its interval contains 0, the difference is
within the margin of error. Each policy is compared with the best at 95 % by itself, and the best is chosen on the same
seeds: among many policies, some differences are outside the margin by chance.</p>"""


def write_report(document: Document, path: Path) -> None:
    """Write the page whole, or not at all."""
    write_whole(path, page(document))


def page(document: Document) -> str:
    """The page as text."""
    adapter = adapter_of(document)
    adapter.check(document)
    found = adapter.points(document)
    plots = [adapter.plots_of(document, point, False) for point in found]
    whole = adapter.plots_of_all(document, False)
    first = next((i for i, p in enumerate(found) if p.ranking), 0)
    ran = {label: f'<p class="ran">{escape(words)}</p>' if words else "" for label, words in about_each(found).items()}
    parts = {
        "title": _title(document),
        "subtitle": what_ran(document, found),
        "notice": _notice(document),
        "verdicts": pairs("verdicts", {p.label: _verdict(p, adapter.verdict(p)) + ran[p.label] for p in found}),
        "controls": _controls(document, first),
        "figures": _figures(whole, [plots[first], *plots]),
        "about_tables": _ABOUT_TABLES + (f"<p>{escape(adapter.about_tables)}</p>" if adapter.about_tables else ""),
        "tables": "\n".join(
            f'<div data-label="{i}"><h3>{escape(p.label)}</h3>\n{ran[p.label]}{_tables(adapter.tables(p))}</div>'
            for i, p in enumerate(found)
        ),
        "settings": _settings(document),
    }
    return frame(parts, [_label(document, p, own) for p, own in zip(found, plots, strict=True)], whole)


def _label(document: Document, point: Point, plots: list[Plot]) -> Spec:
    return {
        "highlighted": highlighted(document, point),
        "ranking": point.ranking,
        "plots": {plot.name: drawn(plot) for plot in plots},
    }


def _title(document: Document) -> str:
    n = len(document["settings"]["policies"])
    policies = f"{n} policies" if n != 1 else "One policy"
    labels, swept = list(document["scenarios"]), sweep(document)
    if swept:
        return f"{policies} over {counted(len(swept[1]), 'value')} of {swept[0]}"
    return f"{policies} on {listed(labels) if len(labels) <= 3 else f'{len(labels)} scenarios'}"


def _notice(document: Document) -> str:
    """What is missing, and what is to be known of policies, before anything else is said."""
    asked = len(document["settings"]["seeds"])
    lines = [f"Stopped early: {document['stopped']}."] if document.get("stopped") else []
    lines += [f"{p.label}: {p.seeds} of {asked} seeds are finished." for p in points(document) if p.seeds < asked]
    lines += [f"{policy} failed and is left out: {line}" for policy, line in (document.get("failures") or {}).items()]
    warnings = [f"Warning: {line}." for line in document.get("warnings") or []]
    if lines or not document.get("complete", True):
        return _note(["<strong>This result is not complete.</strong>", *map(escape, lines + warnings)])
    return _note(map(escape, warnings)) if warnings else ""


def _note(paragraphs: Iterable[str]) -> str:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f'<div class="notice" role="note">{body}</div>'


def _verdict(point: Point, text: str) -> str:
    best = point.ranking[0] if point.ranking else ""
    return f"<strong>{escape(best)}</strong>{escape(text.removeprefix(best))}"


def _tables(found: list[Table]) -> str:
    return "\n".join(details(table, is_open=i == 0) for i, table in enumerate(found)) or "<p>No seed is finished.</p>"


def _controls(document: Document, first: int) -> str:
    swept = sweep(document)
    policies = "\n".join(_checkbox(i, policy) for i, policy in enumerate(by_look(document)))
    return f"""<details open><summary>Choose what is shown</summary>
{label_chooser(swept[0] if swept else "Scenario", list(document["scenarios"]), first)}
<fieldset class="policies"><legend>Policies</legend>
<p class="hint">Line plots show the checked policies; other plots show all policies and highlight these.</p>
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


def _figures(whole: list[Plot], by_label: list[list[Plot]]) -> str:
    """A place for each plot that some label has."""
    places = {plot.name: plot for plots in reversed(by_label) for plot in plots}
    order = dict.fromkeys(plot.name for plots in by_label for plot in plots)
    if not order:
        return "<p>No seed is finished, so there is nothing to draw.</p>"
    return "\n".join(figure(plot, _chooser(plot)) for plot in [*whole, *(places[name] for name in order)])


def _chooser(plot: Plot) -> str:
    """What a reader can choose in a plot, if anything: a measure, or a policy."""
    params = {param["name"] for param in (plot.spec or {}).get("params", [])}
    if "chosen" in params:
        return '<p class="chooser"><label for="chosen">Policy</label><select id="chosen"></select></p>'
    if "measure" not in params:
        return ""
    name, options = f"{plot.name}-measure", "".join(f"<option>{choice}</option>" for choice in plot.findings)
    return (
        f'<p class="chooser"><label for="{name}">Show</label><select class="measure" id="{name}">{options}</select></p>'
    )


def _settings(document: Document) -> str:
    settings, swept = document["settings"], sweep(document)
    rows = {
        "Seeds": _ranges(settings["seeds"]),
        "Changed": ", ".join(settings.get("set") or []) or "nothing",
        **({"Swept": f"{swept[0]} over {', '.join(map(str, swept[1]))}"} if swept else {}),
        "Versions": versions(document),
    }
    listed_rows = pairs("settings", {k: escape(v) for k, v in rows.items()})
    policies = document["policies"]
    columns = {"policy": list(policies)} | {
        key: [str(p.get(key, "")) for p in policies.values()] for key in ("package", "kind", "hash")
    }
    code = details(Table("Policies: package, kind, hash of their code", columns), is_open=False)
    return "\n".join([listed_rows, code, *_assumptions(points(document))])


def _ranges(seeds: list[int]) -> str:
    if len(seeds) > 2 and all(b - a == 1 for a, b in pairwise(seeds)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _assumptions(found: list[Point]) -> Iterator[str]:
    """The assumptions of each scenario; labels that assume the same share a list."""
    labels: dict[tuple[str, ...], list[str]] = {}
    for point in found:
        labels.setdefault(tuple(point.body["assumptions"]), []).append(point.label)
    for items, names in labels.items():
        if items:
            yield assumptions(f"{counted(len(items), 'assumption')} of {listed(names)}", items)
        else:
            yield f"<p>Nothing is assumed in {escape(listed(names))}.</p>"
