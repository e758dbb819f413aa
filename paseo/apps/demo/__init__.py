"""`paseo demo`: restorations that can be looked at a minute after installing.

faces.py    the embedded model on held-out faces, all five tasks
exact.py    a prior and operators known in closed form: no weights, and the right answer is known
report.py   rows, table and contact sheet of both
"""

from paseo.apps.demo.exact import run_exact
from paseo.apps.demo.faces import run_faces
from paseo.apps.demo.report import Demo, DemoRow

__all__ = ["Demo", "DemoRow", "run_exact", "run_faces"]
