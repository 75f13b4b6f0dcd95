"""videorl view: a run in the browser, on this machine only."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view(
    run: Annotated[Path, typer.Argument(help="A run directory; the run may be going on.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0: any free one.")] = 8765,
) -> None:
    """Show a run's metrics, events and rollouts in the browser (read-only, 127.0.0.1)."""
    import socket

    import uvicorn

    from videorl.errors import UserError
    from videorl.monitor.run_files import RunFiles
    from videorl.monitor.viewer import make_site

    site = make_site(RunFiles.open(run))
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise UserError(f"--port {port}: {error.strerror}; choose another, or 0 for any free one") from None
        typer.echo(f"http://127.0.0.1:{listener.getsockname()[1]}  (Ctrl-C ends it)", err=True)
        uvicorn.Server(uvicorn.Config(site, log_level="warning", access_log=False)).run(sockets=[listener])
