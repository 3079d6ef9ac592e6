"""Routes for incoming data: sources, predictions, labels; and the erasure of rows."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from shiftgauge.monitor.api.requests import (
    PROBLEMS,
    Body,
    body_schema,
    committer_of,
    idempotency,
    limits_of,
    plain_body,
    query_time,
    run_in_reader,
    store_of,
)
from shiftgauge.monitor.api.security import Admin, require_scope
from shiftgauge.monitor.db.erasure import erase_rows
from shiftgauge.monitor.db.models import SourceView, put_source
from shiftgauge.monitor.ingest.bodies import (
    ARROW,
    NPZ,
    PARQUET,
    SourceBody,
    media_type,
    source_file,
)
from shiftgauge.monitor.ingest.commit import PendingResponse, submit_labels, submit_rows
from shiftgauge.monitor.ingest.rows import LabelsBody, Predictions, read_labels, read_rows
from shiftgauge.monitor.periods import now_us
from shiftgauge.monitor.problems import invalid
from shiftgauge.monitor.records import Record

router = APIRouter(prefix="/v1/models/{model}", tags=["data"], responses=PROBLEMS)
ROW = {
    "rows": [
        {
            "id": "r-1",
            "time": "2026-03-05T14:00:00Z",
            "version": "v1",
            "probs": [0.7, 0.3],
            "segments": {"country": "DE"},
        }
    ]
}


class RowsAccepted(Record):
    """What became of posted predictions."""

    accepted: int
    duplicates: int = Field(description="rows that were stored already")
    replayed: bool = Field(default=False, description="the response to an Idempotency-Key that came before")


class LabelsAccepted(RowsAccepted):
    """What became of posted labels."""

    corrected: int = Field(description="labels that replaced another one of the same id")
    unmatched: int = Field(description="labels whose row has not come yet")


class RowsErased(Record):
    """How many rows were erased, or rows and labels of an id."""

    model: str
    erased: int


def _content(request: Request, body: bytes) -> tuple[bytes, str]:
    """A body without its compression, and its media type."""
    plain = plain_body(request, body)
    return plain, media_type(request.headers.get("content-type"), plain)


@router.put(
    "/versions/{version}/source",
    openapi_extra=body_schema(
        SourceBody,
        NPZ,
        PARQUET,
        ARROW,
        example={"probs": [[0.9, 0.1], [0.2, 0.8]], "labels": [0, 1], "classes": None},
    ),
)
async def put_the_source(request: Request, model: str, version: str, caller: Admin, body: Body) -> SourceView:
    """The labelled validation scores of a version: npz, Parquet, Arrow or JSON."""

    def work() -> SourceView:
        content, ending = source_file(*_content(request, body), limits_of(request))
        return put_source(store_of(request), model, version, content, ending, caller.name)

    return await run_in_reader(request, work)


@router.post(
    "/predictions",
    status_code=202,
    response_model=RowsAccepted,
    response_model_exclude_unset=True,
    dependencies=[require_scope("ingest")],
    openapi_extra=body_schema(Predictions, ARROW, PARQUET, example=ROW),
)
async def post_predictions(request: Request, model: str, body: Body) -> dict[str, Any]:
    """Rows of predictions; kept (202) or refused as a whole, and counted once however often they are sent."""

    def work() -> PendingResponse:
        rows = read_rows(*_content(request, body), limits_of(request), now_us())
        return submit_rows(committer_of(request), model, rows, *idempotency(request, body))

    return await asyncio.wrap_future(await run_in_reader(request, work))


@router.post(
    "/labels",
    status_code=202,
    response_model=LabelsAccepted,
    response_model_exclude_unset=True,
    dependencies=[require_scope("ingest")],
    openapi_extra=body_schema(LabelsBody, ARROW, PARQUET, example={"labels": [{"id": "r-1", "label": 1}]}),
)
async def post_labels(request: Request, model: str, body: Body) -> dict[str, Any]:
    """Labels by id, at any time, also before their rows; another label for the same id corrects it."""

    def work() -> PendingResponse:
        labels = read_labels(*_content(request, body), limits_of(request))
        return submit_labels(committer_of(request), model, labels, *idempotency(request, body))

    return await asyncio.wrap_future(await run_in_reader(request, work))


@router.delete("/rows")
def delete_rows(
    request: Request, model: str, caller: Admin, before: str | None = None, id: str | None = None
) -> RowsErased:
    """Erase the rows before a time, or the row and labels of one id; numbers that were published stay."""
    if id is not None and not 1 <= len(id) <= limits_of(request).text:
        raise invalid(f"id: wanted 1 to {limits_of(request).text} characters")
    moment = query_time(before, "before")
    if moment is not None and moment > now_us():
        raise invalid(f"before={before}: lies in the future; wanted a time that has passed")
    return RowsErased(
        model=model, erased=erase_rows(store_of(request), model, before=moment, id=id, who=caller.name)
    )
