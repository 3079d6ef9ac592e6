"""What a browser shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI


def include(app: FastAPI) -> None:
    """Add the pages to the application; its store is `app.state.store`."""
