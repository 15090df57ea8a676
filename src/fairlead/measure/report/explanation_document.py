"""An explained decision, as reports read it: checked once, then drawn.

Called by `explanation_page` and `plot_files`.
"""

from __future__ import annotations

from typing import Any

from fairlead.domain.errors import UserError
from fairlead.measure.report.document import Document
from fairlead.measure.report.explanation_phrases import when
from fairlead.measure.report.plots.explanation import drivers, replay, worth
from fairlead.measure.report.plots.plot import Plot
from fairlead.measure.report.schema import EXPLANATION, first_fault


def is_explanation(document: Any) -> bool:
    """Whether it is of this kind."""
    return isinstance(document, dict) and document.get("kind") == "explanation"


def check_explanation(document: Document) -> None:
    """Refuse what no report can be made of, in one line."""
    if fault := first_fault(document, EXPLANATION):
        raise UserError(f"not as fairlead writes it: {fault}")
    made = document["decision"]
    names = {i["name"] for i in made["inputs"]}
    for i, driver in enumerate(made["drivers"]):
        if not driver["group"] and driver["name"] not in names:
            raise UserError(f"decision.drivers.{i}: {driver['name']} is not among the inputs")


def replayed(document: Document) -> bool:
    """Whether the alternatives were tried."""
    return any(a["replayed"] for a in document["decision"]["alternatives"])


def what_ran(document: Document) -> str:
    """The run and the decision in it."""
    settings = document["settings"]
    changed, seed = settings.get("set"), settings.get("seed")
    run = [document["title"], document.get("workload"), f"with {', '.join(changed)}" if changed else ""]
    run.append(f"seed {seed}" if isinstance(seed, int) else "")
    return "; ".join(filter(None, (*run, when(document["decision"]))))


def plots(document: Document) -> list[Plot]:
    """Its plots."""
    made = document["decision"]
    tried = [replay(document)] if replayed(document) else []
    return [worth(made), *tried, drivers(made, group=False), drivers(made, group=True)]
