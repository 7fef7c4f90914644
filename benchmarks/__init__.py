"""Side-by-side measurements: `python -m benchmarks.NAME [--quick] [--json FILE]`.

Each module measures one thing against the tool a user would otherwise take, in one run on one machine, prints one
table with absolute figures and writes its named ratios (above 1: ours is faster). Nothing here decides a test.
"""
