#!/bin/sh
# The same policies under random arrivals and under the trace.
set -eu
cd "$(dirname "$0")"
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH # what `make up` made
fairlead compare gate.yaml gate-traced.yaml --policies closest,load-balancing,least-expected-completion --seeds 5
