"""Samplers, one file per paper: frozen dataclasses of hyperparameters that can be called."""

from paseo.samplers.paseo import PASEO

__all__ = ["PASEO"]
