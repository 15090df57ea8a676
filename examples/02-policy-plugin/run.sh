#!/bin/sh
# Installs the package into a folder of its own, away from the environment, and compares its policies with one of Fairlead's.
set -eu
cd "$(dirname "$0")"
PATH=$(cd ../.. && pwd)/.venv/bin:$PATH # what `make up` made
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
uv pip install --quiet --offline --no-cache --no-deps --no-build-isolation --python "$(command -v python)" --target "$site" .
export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
fairlead policies
fairlead compare ecsrl --policies most-accurate-in-time,tenant-affinity,closest --seeds 5 --set duration_s=30
fairlead compare tapfinger-3 --policies first-come,min --seeds 5
