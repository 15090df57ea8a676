"""Record layouts: the arrays that policies, simulator, gateway and decision log share.

A layout is a NumPy structured dtype, so that compiled code and plain Python read the same bytes by the same field
names. Nothing here computes; conversion from the nouns happens in `fairlead.policies.snapshot.fleet`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

#: One inference request as a policy sees it.
REQUEST: Final = np.dtype(
    [
        ("id", np.int64),  # position in the workload, the key of every random draw of this request
        ("seq", np.int64),  # how many decisions were made before this one (a round-robin counter)
        ("stream", np.int32),  # row of its stream; -1 for a single request
        ("source", np.uint32),  # row of its source in the scenario
        ("model", np.uint32),  # row of its model
        ("tenant", np.uint32),  # row of its tenant
        ("sla", np.uint32),  # row of its SLA class
        ("site", np.uint32),  # row of the site at which it enters the network
        ("now_ms", np.float64),  # time at which it enters
        ("deadline_ms", np.float64),  # longest end-to-end latency that is in time
        ("min_accuracy", np.float64),  # lowest accuracy that is accurate enough, 0..1
        ("size_kb", np.float64),  # size of its input
        ("rate_qps", np.float64),  # rate of its stream; 0 for a single request
    ],
    align=True,
)

#: One place where a request could run: a (variant, node) pair.
CANDIDATE: Final = np.dtype(
    [
        ("node", np.uint32),  # row of the node
        ("variant", np.uint32),  # row of the variant
        ("net_ms", np.float64),  # one-way network delay, mean
        ("net_sd_ms", np.float64),  # its standard deviation
        ("transfer_ms", np.float64),  # time of the input over the link, size / bandwidth
        ("proc_ms", np.float64),  # processing time alone on the node, for this input size
        ("service_rate", np.float64),  # requests per second if always busy
        ("load", np.float64),  # stream binding: bound work / capacity; per request: in flight / service_rate (s)
        ("queue_ms", np.float64),  # expected wait before service
        ("suffered", np.float64),  # degradation of the new request beside those there: time beside others / time alone
        ("caused", np.float64),  # sum of the degradation that it would add to those there
        ("accuracy", np.float64),  # mean accuracy of the variant, 0..1
        ("energy_mj", np.float64),  # energy of this request there, above idle
        ("price", np.float64),  # price of this request there
        ("free_mb", np.float64),  # memory of the node that is not in use
        ("in_flight", np.float64),  # requests sent there and not finished
        ("others_in_flight", np.float64),  # the same on its node, for other variants only
        ("proc_sd_ms", np.float64),  # deviation of proc_ms
        ("wait_ms", np.float64),  # what the node should take beyond proc_ms, from what is under way there
        ("wait_sd_ms", np.float64),  # its deviation
        ("makes_late", np.float64),  # expected number of requests under way there that it would make late
        ("nearest_ms", np.float64),  # one-way delay to the node from the site that is nearest to it
        ("busy", np.float64),  # share of its servers (shared: of the time) that was busy of late
    ],
    align=True,
)

#: Fields of CANDIDATE that take work to keep up: NaN where the policy that decides does not read them.
FORESEEN: Final = ("wait_ms", "wait_sd_ms", "makes_late", "busy")

#: The traffic of one window of time, from which the inputs of selectors are made; a gateway counts the same.
TRAFFIC: Final = np.dtype(
    [
        ("arrived", np.int64),  # requests that arrived
        ("delivered", np.int64),  # answers that reached their clients
        ("clients", np.int64),  # streams open at the end of the window; before the first window, clients connected
        ("within_40_ms", np.int64),  # arrivals with a deadline of at most 40 ms
        ("within_80_ms", np.int64),  # arrivals with a deadline of at most 80 ms
        ("within_160_ms", np.int64),  # arrivals with a deadline of at most 160 ms
        ("min_accuracy", np.float64),  # sum of `min_accuracy` over arrivals
    ],
    align=True,
)

#: One row of the decision log: the decision on a request, and its outcome.
DECISION: Final = np.dtype(
    [
        ("request", np.int64),  # its number in the workload
        ("time_ms", np.float64),  # time at which it arrived
        ("choice", np.int32),  # row of the chosen deployment; -1 when rejected
        ("node", np.int32),  # row of the node; -1 when rejected
        ("variant", np.int32),  # row of the variant; -1 when rejected
        ("second", np.int32),  # row of the deployment of the second inference; -1 when there was none
        ("shadow", np.int32),  # choice of a policy asked without acting; -1: reject, -2: none was asked
        ("decided_by", np.int16),  # row of the log's policies that made the choice; -1 when no policy was asked
        ("fallback", np.uint8),  # why a rule stood in for a learned policy: 1 + position in Fallback; 0 otherwise
        ("outcome", np.uint8),  # how it ended, see Outcome
        ("reason", np.uint8),  # why it was rejected, see Reason; 0 otherwise
        ("bound", np.uint8),  # 1 when an earlier decision for its stream was followed
        ("predicted_ms", np.float64),  # latency expected at the decision; NaN when rejected or bound
        ("net_ms", np.float64),  # time on the network, transfers included
        ("queue_ms", np.float64),  # time in queues
        ("service_ms", np.float64),  # time in service
        ("latency_ms", np.float64),  # sum of the three above; NaN when rejected
        ("accuracy", np.float64),  # quality of the delivered answer; NaN when rejected
        ("energy_mj", np.float64),  # energy above idle
        ("price", np.float64),  # price
        ("probability", np.float64),  # probability of the choice under the policy; NaN when unknown
    ],
    align=True,
)

#: One window of simulated time. Answers count in the window in which they reach the client.
WINDOW: Final = np.dtype(
    [
        ("arrived", np.int64),  # requests that arrived
        ("rejected", np.int64),  # requests that were rejected
        ("delivered", np.int64),  # answers that reached their clients
        ("succeeded", np.int64),  # answers in time and accurate enough
        ("late", np.int64),  # answers after their deadline
        ("inaccurate", np.int64),  # answers in time, not accurate enough
        ("escalated", np.int64),  # second inferences started
        ("clients", np.int64),  # streams open at the end of the window
        ("latency_ms", np.float64),  # sum over deliveries
        ("energy_mj", np.float64),  # sum over deliveries, above idle
    ],
    align=True,
)
