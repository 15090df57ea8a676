"""Rates of a device of which a few models were timed, from all devices of a table.

First the times of the table's other models as they go together on other devices (`matrix_completion`), then rates
near to the population's (`rates`) that fit to all of them: with these any model can be predicted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fairlead.profile.predict.matrix_completion import best_probes, fit_together
from fairlead.profile.predict.rates import fit_near, fit_population
from fairlead.profile.predict.timing_tables import TimingTable, amounts_of

PROBES = 3  #: models that are timed on a new device
_TIMED = 0.1  # deviation of rates from a time that was taken: less certain times count less


class Newcomers:
    """What a table says of devices that it does not have."""

    def __init__(self, table: TimingTable) -> None:
        self._table = table
        self._together = fit_together(table.times_ms)
        self._common = fit_population(table.amounts, table.times_ms)

    def probes(self, count: int = PROBES) -> list[str]:
        """The models to time."""
        return [self._table.models[n] for n in best_probes(self._together, count)]

    def rates(self, timed_ms: Mapping[str, float]) -> dict[str, float]:
        """Of a device with these times; models that the table lacks count as well."""
        models = self._table.models
        row = np.array([timed_ms.get(model, np.nan) for model in models])
        times, deviations = self._together.complete(row)
        more = [model for model in timed_ms if model not in models]
        amounts = [*self._table.amounts, *(amounts_of(model) for model in more)]
        sure = _TIMED**2 / (_TIMED**2 + np.concatenate([deviations, np.zeros(len(more))]) ** 2)
        return fit_near(self._common, amounts, np.concatenate([times, [timed_ms[model] for model in more]]), sure)
