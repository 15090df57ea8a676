"""A document of degradation matrices, as the report reads it: checked once, then a list of devices with their plots.

Both sources of matrices, simulator and real machine, write such documents. Called by `degradation_page` and
`plot_files`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairlead.domain.errors import UserError
from fairlead.measure.degradation_matrix import Matrix, by_device, names
from fairlead.measure.report.document import Document, number
from fairlead.measure.report.plots.degradation import Slopes, by_rho, curve, heat_map
from fairlead.measure.report.plots.plot import Plot
from fairlead.measure.report.schema import DEGRADATION, first_fault


@dataclass(frozen=True)
class Measured:
    """The matrices of one kind of device."""

    label: str
    matrices: list[Matrix]
    slopes: Slopes  # empty: not asked for

    def plots(self) -> list[Plot]:
        """Its plots."""
        maps = [heat_map(m, i) for i, m in enumerate(self.matrices, start=1)]
        return [*maps, curve(self.matrices), *([by_rho(self.slopes)] if self.slopes else [])]


def is_degradation(document: Any) -> bool:
    """Whether it is of this kind."""
    return isinstance(document, dict) and document.get("kind") == "degradation"


def check_degradation(document: Document) -> None:
    """Refuse what no report can be made of, in one line."""
    if fault := first_fault(document, DEGRADATION):
        raise UserError(f"not as fairlead writes it: {fault}")
    for i, m in enumerate(document["matrices"]):
        if len({len(row) for row in m["cells"]}) != 1 or (len(m["axes"]) == 1 and len(m["cells"][0]) != 1):
            raise UserError(f"matrices.{i}.cells: rows should be of equal length, of one cell where there is one axis")
        if not all(number(c) > 0 for row in m["cells"] for c in row):
            raise UserError(f"matrices.{i}.cells: should be numbers above 0, or 'inf'")
        if (slopes := m.get("by_rho")) and len(slopes["rho"]) != len(slopes["slope"]):
            raise UserError(f"matrices.{i}.by_rho: should have a slope for each rho")


def what_ran(document: Document) -> str:
    """What was measured, where, and what was changed for it."""
    changed = document["settings"].get("set")
    with_ = f"with {', '.join(changed)}" if isinstance(changed, list) and changed else ""
    return "; ".join(filter(None, (document["title"], f"measured {document['measured']}", with_)))


def devices(document: Document) -> list[Measured]:
    """What was measured, by device."""
    given = {_matrix(m): m.get("by_rho") for m in document["matrices"]}
    found = []
    for label, there in by_device(list(given)).items():
        series = {
            name: list(zip(slopes["rho"], map(number, slopes["slope"]), strict=True))
            for name, m in zip(names(there), there, strict=True)
            if (slopes := given[m])
        }
        found.append(Measured(label, there, series))
    return found


def _matrix(m: Document) -> Matrix:
    cells = tuple(tuple(map(number, row)) for row in m["cells"])
    return Matrix(m["device"], tuple(m["nodes"]), m["arriving"], tuple(m["axes"]), float(m["alone_ms"]), cells)
