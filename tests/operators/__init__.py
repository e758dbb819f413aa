"""Tests of paseo.operators."""
