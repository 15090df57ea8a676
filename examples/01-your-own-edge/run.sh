#!/bin/sh
# Shows the scenario with its assumptions, then compares all policies on it.
set -eu
cd "$(dirname "$0")"
fairlead show shop.yaml
fairlead compare shop.yaml --seeds 5
