"""Sphinx: Markdown pages by MyST, the furo theme, formulas as MathML; nothing is loaded from elsewhere."""

import sys
from pathlib import Path

from paseo.version import __version__

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "PASEO"
author = "The PASEO authors"
copyright = "The PASEO authors, Apache-2.0"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "beside", "mathml", "plain"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # those of torch and diffusers are written for other readers
exclude_patterns = ["_build", "images"]
html_theme = "furo"
html_title = "PASEO"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["paseo.css"]
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository
    "ref.python",  # a bare type name that two modules have
]
