"""Tasks for `fairlead trace` that ship: programs of their own, run with `python -m` and never imported."""
