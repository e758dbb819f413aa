"""The page in the browser: `paseo ui`. Gradio draws it; the work is done by the code behind `paseo restore`.

    fields.py     a sampler's settings as boxes
    form.py       what was filled in → the plan of the command line, and the limits on what may be uploaded
    work.py       one run in a thread: progress, preview, cancel
    results.py    pictures, scores and files of a finished run
    handlers.py   what the buttons do
    wiring.py     between gradio and the handlers
    page.py       what is where; compare.py the second tab, look.py how it looks
    server.py     starting and ending it

The same settings give the same bytes here and on the command line.
"""
