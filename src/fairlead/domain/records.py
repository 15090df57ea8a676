"""Record layouts: the arrays that policies, simulator, gateway and decision log share.

A layout is a NumPy structured dtype, so that compiled code and plain Python read the same bytes by the same field
names. Nothing here computes; conversion from the nouns happens in `fairlead.sim.serving.plan`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

#: One inference request as a policy sees it.
REQUEST: Final = np.dtype(
    [
        ("id", np.int64),  # position in the workload, the key of every random draw of this request
        ("seq", np.int64),  # how many decisions were made before this one (a round-robin counter)
        ("stream", np.int32),  # row of its stream
        ("source", np.uint32),  # row of the scenario's source that made it
        ("model", np.uint32),
        ("tenant", np.uint32),
        ("sla", np.uint32),
        ("site", np.uint32),  # where it entered the network
        ("now_ms", np.float64),  # when it entered
        ("deadline_ms", np.float64),  # allowed end-to-end latency
        ("min_accuracy", np.float64),
        ("size_kb", np.float64),
        ("rate_qps", np.float64),  # rate of its stream; 0 for a single request
    ],
    align=True,
)

#: One place where a request could run: a (variant, node) pair.
CANDIDATE: Final = np.dtype(
    [
        ("node", np.uint32),
        ("variant", np.uint32),
        ("net_ms", np.float64),  # one-way network delay, mean
        ("net_sd_ms", np.float64),  # its standard deviation
        ("transfer_ms", np.float64),  # size / bandwidth, paid once, on the way up
        ("proc_ms", np.float64),  # processing time alone on the node, for this input size
        ("service_rate", np.float64),  # requests per second when always busy
        ("load", np.float64),  # stream binding: bound work / capacity; per request: in flight / service_rate (s)
        ("queue_ms", np.float64),  # expected wait before service
        ("suffered", np.float64),  # degradation the newcomer would suffer: time among others / time alone
        ("caused", np.float64),  # summed degradation it would add to those already there
        ("accuracy", np.float64),  # mean accuracy of the variant, 0..1
        ("energy_mj", np.float64),  # energy above idle of this request there
        ("price", np.float64),  # money for this request there
        ("free_mb", np.float64),  # node memory not in use
        ("in_flight", np.float64),  # sent there and not finished
        ("others_in_flight", np.float64),  # the same on its node, of other variants only
    ],
    align=True,
)

#: The traffic of one window of time, as a selector's inputs are made from it; a gateway counts the same.
TRAFFIC: Final = np.dtype(
    [
        ("arrived", np.int64),
        ("delivered", np.int64),
        ("clients", np.int64),  # streams open at the end of the window; before the first window, clients connected
        ("within_40_ms", np.int64),  # arrivals with a deadline of at most so much
        ("within_80_ms", np.int64),
        ("within_160_ms", np.int64),
        ("min_accuracy", np.float64),  # sum over arrivals
    ],
    align=True,
)

#: One row of the decision log: what was decided for a request and what became of it.
DECISION: Final = np.dtype(
    [
        ("request", np.int64),
        ("time_ms", np.float64),
        ("choice", np.int32),  # deployment row, -1 when rejected
        ("node", np.int32),
        ("variant", np.int32),
        ("second", np.int32),  # deployment of the second inference, -1 when there was none
        ("shadow", np.int32),  # what a policy that was asked beside it chose; -1 to reject, -2 when none was asked
        ("decided_by", np.int16),  # row of the log's policies: whose choice it was; -1 when no policy was asked
        ("fallback", np.uint8),  # why a rule decided for a learned policy: 1 + position in Fallback, 0 otherwise
        ("outcome", np.uint8),  # Outcome
        ("reason", np.uint8),  # Reason of a rejection, 0 otherwise
        ("bound", np.uint8),  # 1 when an earlier decision for its stream was followed
        ("probability", np.float64),  # of the choice under the policy, NaN when unknown
        ("net_ms", np.float64),  # all network time, transfers included
        ("queue_ms", np.float64),
        ("service_ms", np.float64),
        ("latency_ms", np.float64),  # the three above; NaN when rejected
        ("predicted_ms", np.float64),  # latency expected when it was decided; NaN when rejected or bound
        ("accuracy", np.float64),  # of the answer that was delivered; NaN when rejected
        ("energy_mj", np.float64),
        ("price", np.float64),
    ],
    align=True,
)

#: What happened in one window of simulated time. Deliveries count in the window in which they reach the client.
WINDOW: Final = np.dtype(
    [
        ("arrived", np.int64),
        ("rejected", np.int64),
        ("delivered", np.int64),
        ("succeeded", np.int64),
        ("late", np.int64),
        ("inaccurate", np.int64),
        ("escalated", np.int64),  # second inferences started
        ("clients", np.int64),  # streams open at the end of the window
        ("latency_ms", np.float64),  # sum over deliveries
        ("energy_mj", np.float64),  # sum over deliveries, above idle
    ],
    align=True,
)
