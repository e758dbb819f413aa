"""The errors a user may see. Each message names the value, what was expected and the way out."""

from __future__ import annotations


class PaseoError(Exception):
    """Base of all errors raised on purpose; the CLI prints it without a traceback and exits with 2."""


class BadInput(PaseoError, ValueError):
    """A value, file or setting that cannot be used as given."""


class Unsupported(PaseoError):
    """A combination that has no meaning, such as an adjoint of JPEG."""


class MissingWeights(PaseoError, FileNotFoundError):
    """A model or operator that is not on this machine, is incomplete, or is not what its name says."""


class NotFinite(PaseoError, FloatingPointError):
    """A latent became NaN or infinite; the message names the step and a setting to try."""


class Cancelled(PaseoError):
    """Raised by a `watch` hook to stop a run between two steps."""
