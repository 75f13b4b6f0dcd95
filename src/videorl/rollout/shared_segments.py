"""Shared-memory segments that killed engines leave behind.

A process that ends by SIGKILL unlinks nothing: vLLM's message queues (`psm_*`) and media caches (`VLLM_*`) would fill
/dev/shm run by run. A segment without a process that has it mapped or open belongs to nobody.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
PATTERNS = ("psm_*", "VLLM_*", "vllm_*")
MIN_AGE = 60.0  # seconds: a younger segment may be about to be mapped


def remove_stale_segments(folder: Path = SHARED_MEMORY, min_age: float = MIN_AGE) -> list[str]:
    """Unlink this user's engine segments that no process uses; returns their names."""
    newest = time.time() - min_age
    old = [
        path
        for pattern in PATTERNS
        for path in folder.glob(pattern)
        if path.is_file() and path.stat().st_uid == os.getuid() and path.stat().st_mtime <= newest
    ]
    if not old:
        return []
    used = _paths_in_use()
    stale = [path for path in old if str(path) not in used]
    for path in stale:
        path.unlink(missing_ok=True)
    return [path.name for path in stale]


def _paths_in_use() -> set[str]:
    """Files that any process we may look into has mapped or open."""
    used: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            used.update(line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines())
            used.update(str(handle.readlink()) for handle in (process / "fd").iterdir())
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return used
