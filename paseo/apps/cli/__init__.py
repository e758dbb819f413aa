"""The verbs of the command line, one module each. They parse, call the library and print; they compute
nothing.
"""
