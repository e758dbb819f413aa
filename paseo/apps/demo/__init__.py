"""`paseo demo`: restorations that can be looked at a minute after installing.

samples.py  the embedded models on their held-out samples, all five tasks
exact.py    a prior and operators known in closed form: no weights, and the right answer is known
report.py   rows, table and contact sheet of both
"""

from paseo.apps.demo.exact import run_exact
from paseo.apps.demo.report import Demo, DemoRow, joined
from paseo.apps.demo.samples import run_samples

__all__ = ["Demo", "DemoRow", "joined", "run_exact", "run_samples"]
