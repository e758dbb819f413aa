"""What the user asked for → everything that a run needs, decided once, for every door.

    recipe = resolve(Request(task="sr4"))
    recipe.sampler, recipe.prompt, recipe.guidance, recipe.why

The command line, the page, `PaseoPipeline`, `bench`, `tune` and `reproduce` all fill in a `Request` and take
what `resolve` makes of it. Nothing else in the package fills in what was left open.
"""

from paseo.recipe.finding import Finding, examine_file, read_off, resolve_found
from paseo.recipe.key import canonical, key_of
from paseo.recipe.recipe import CELLS, FEATHER, NOTHING, OperatorSource, Recipe
from paseo.recipe.request import Request
from paseo.recipe.resolve import resolve, settle

__all__ = [
    "CELLS",
    "FEATHER",
    "NOTHING",
    "Finding",
    "OperatorSource",
    "Recipe",
    "Request",
    "canonical",
    "examine_file",
    "key_of",
    "read_off",
    "resolve",
    "resolve_found",
    "settle",
]
