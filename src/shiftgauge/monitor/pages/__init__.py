"""Pages for a browser: the list of models, a model over time, a window, alerts, settings.

Pages are rendered on the server and work without JavaScript; a small script adds reading numbers by pointer, touch
and arrow keys. Nothing is fetched from other hosts.
"""
