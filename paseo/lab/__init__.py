"""Measuring: benchmarks, the paper's experiments, the search for settings, and cost. Nothing but `apps`
imports it.
"""
