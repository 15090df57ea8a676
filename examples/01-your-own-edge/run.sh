#!/bin/sh
# Shows the scenario with its assumptions, then compares all policies on it.
set -eu
cd "$(dirname "$0")"
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH # what `make up` made
fairlead show shop.yaml
fairlead compare shop.yaml --seeds 5
