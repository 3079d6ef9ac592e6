"""What a browser shows: the list of models, a model over time, a window, alerts, settings.

Pages are rendered on the server from `shiftgauge.monitor.service` and work without JavaScript; the small script
adds reading numbers by pointer, finger and arrow keys. Nothing is fetched from elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def include(app: FastAPI) -> None:
    """Add the pages to the application; its store is `app.state.store`."""
    from shiftgauge.monitor.pages import changing, router

    app.include_router(router.router)
    app.include_router(changing.router)
