"""Which cluster gets a task that several want: TapFinger's conflict resolution by Bayes' theorem (equation 11).

Pr(cluster | task) is taken proportional to Pr(task | cluster) Pr(cluster): how much a cluster wants the task, its
score, times a prior that favours clusters with room. The prior is the number of such tasks that the cluster has room
for; that of the authors' program, the softmax over the clusters of min_r free_r / minimum_r, is the other one. The
highest wins, of equals the first: what differs by rounding is equal. Called by the world's agents, and so by training
and the gym, and by bundles (`policies.tasks.learned`).
"""

from __future__ import annotations

import math
from typing import Any, Final

from fairlead.policies.jit import inlined

COPIES: Final = 0
SOFTMAX: Final = 1
PRIORS: Final = {"copies": COPIES, "softmax": SOFTMAX}  #: By name, the paper's and that of its authors' program.

_NOBODY: Final = -1
_MORE: Final = 1.0 + 1e-5  # how much more counts as more


@inlined
def prior_of(free: Any, n: int, minimum: Any, task_type: int, prior: int) -> float:
    """The weight of a cluster's claim; `free` is (N, K), `minimum` (J, K)."""
    least = math.inf
    for k in range(minimum.shape[1]):
        if minimum[task_type, k] > 0:
            least = min(least, free[n, k] / minimum[task_type, k])
    return float(int(least)) if prior == COPIES else math.exp(least)  # softmax's denominator is the same for all


@inlined
def resolve(wanted: Any, scores: Any, priors: Any) -> None:
    """Leave in `wanted` (N,), the task that each cluster wants or -1, one cluster for each task."""
    for n in range(len(wanted)):
        for m in range(n + 1, len(wanted)):
            if wanted[n] != _NOBODY and wanted[m] == wanted[n]:
                if scores[m] * priors[m] > scores[n] * priors[n] * _MORE:
                    wanted[n] = _NOBODY
                else:
                    wanted[m] = _NOBODY
