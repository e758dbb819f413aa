"""`python -m paseo` is `paseo`."""

from paseo.cli import main

main()
