"""`python -m paseo` is `paseo`."""

from paseo.apps.cli.main import main

main()
