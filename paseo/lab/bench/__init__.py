"""Measured comparisons.

plan.py       a configuration (config.py) becomes one line per cell (cells.py), each with a key of all it
              depends on
run.py        computes what is missing (compute.py): one process, shards, or Ray (ray_engine.py)
report.py     rows become tables (aggregate.py, tables.py), charts and picture grids
tune.py       settings of a method chosen on validation images, within the bounds of spaces.py
cost.py       what PASEO costs at full size
"""
