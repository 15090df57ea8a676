#!/bin/sh
# The same policies under random arrivals and under the trace.
set -eu
cd "$(dirname "$0")"
fairlead compare gate.yaml gate-traced.yaml --policies closest,load-balancing,least-expected-completion --seeds 5
