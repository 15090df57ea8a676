"""Fuzzers of every type of file that a user may name: shipped files, changed at random, through the real commands.

    make fuzz                                              ten minutes a target
    python -m tests.fuzz --target scenario --seconds 60 --seed 3
    python -m tests.fuzz --target scenario --seed 3 --case 1234    one case again; its files stay in fuzz-failures/

A case is made from (target, seed, number) alone. It runs in a process (`worker`) that the parent (`runner`) watches: a
traceback, a warning, a death, more than ten seconds or more than 2 GB is a failure; one line of refusal is none.
`mutate` changes bytes, text and trees; each file in `targets` has what is changed and what is run.
`tests/test_fuzz.py` runs a few cases of each, and `targets/planted.py`: faults that have to be found.
"""
