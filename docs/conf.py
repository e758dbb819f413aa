"""Sphinx: Markdown pages by MyST, the furo theme."""

import importlib.metadata

project = "PASEO"
author = "The PASEO authors"
copyright = "The PASEO authors, Apache-2.0"
release = version = importlib.metadata.version("paseo")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "PASEO"
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository
