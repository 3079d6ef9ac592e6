"""Pages for a browser: the list of models, a model over time, a window, alerts, settings, the API.

Pages are rendered on the server. A script draws the chart with uPlot (`static/uPlot.LICENSE`); without it every number
stands in a table. Nothing is fetched from other hosts.
"""
