"""A run in the browser: a small read-only site on this machine.

Everything that a model or a data set wrote is text: templates escape it, and the pages run no script (CSP). A video is
named by its place in the run's own files, never by a path, and shown only if it lies under the run's media root.
"""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from videorl.monitor.charts import HEIGHT, WIDTH, chart_of
from videorl.monitor.run_files import RunFiles, groups_of

_CHARTED = (
    "reward/mean",
    "reward/accuracy",
    "reward/format",
    "response/length",
    "lag/max",
    "idle/trainer",
    "idle/rollout",
    "logprob/max_diff",
    "grad_norm",
    "timing/step",
)
_EVENTS = 50
_GROUPS_A_PAGE = 8
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; media-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def make_site(run: RunFiles) -> Starlette:
    """The site of one run; it answers to names of this machine only."""
    templates = Environment(
        loader=PackageLoader("videorl.monitor", "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )

    def overview(request: Request) -> Response:
        metrics = run.metrics()
        charts = [chart for name in _CHARTED if (chart := chart_of(metrics, name))]
        return _page(
            templates,
            "run.html",
            root=run.root,
            status=run.status(),
            charts=charts,
            width=WIDTH,
            height=HEIGHT,
            events=run.events(_EVENTS),
            steps=run.steps(),
        )

    def step(request: Request) -> Response:
        number, page = request.path_params["step"], _whole(request.query_params.get("page", "0"))
        groups = groups_of(run.rollouts(number))
        if not groups:
            raise HTTPException(404, "no rollouts of that fit step")
        shown = groups[page * _GROUPS_A_PAGE : (page + 1) * _GROUPS_A_PAGE]
        return _page(
            templates,
            "step.html",
            root=run.root,
            step=number,
            groups=shown,
            page=page,
            pages=-(-len(groups) // _GROUPS_A_PAGE),
            steps=run.steps(),
        )

    def media(request: Request) -> Response:
        place = request.path_params
        path = run.media(place["step"], place["line"], place["index"])
        if path is None:
            raise HTTPException(404, "no such video, or not under the run's media root")
        return FileResponse(path, headers=_HEADERS)

    return Starlette(
        routes=[
            Route("/", overview),
            Route("/step/{step:int}", step),
            Route("/media/{step:int}/{line:int}/{index:int}", media),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "pages" / "static")),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


def _page(templates: Environment, name: str, **facts: object) -> Response:
    return HTMLResponse(templates.get_template(name).render(**facts), headers=_HEADERS)


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise HTTPException(400, "page is a number from 0")
    return int(text)
