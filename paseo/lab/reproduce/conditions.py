"""The conditions a measured number carries: versions, threads, processor."""

from __future__ import annotations

from paseo.record import conditions, processor

__all__ = ["conditions", "processor"]
