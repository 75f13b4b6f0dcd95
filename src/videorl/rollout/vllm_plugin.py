"""What happens in every process that vLLM starts: it dies with its parent, forks its own children, compiles as told.

vLLM calls `register` (entry point group vllm.general_plugins) in the front process, the engine core and each worker.
When the front is killed with SIGKILL nothing tells the engine core, which would keep its memory or its GPU for ever.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
NO_COMPILATION = "TORCH_COMPILE_DISABLE"  # torch reads it when it is imported


def register() -> None:
    """Set up a process that vLLM has started. Nothing in the front process, nor outside Linux.

    The kernel is asked for SIGKILL at the parent's death, and means the parent's THREAD: an engine's front starts it
    from a thread that lives as long as the engine.

    A front inside a Ray actor must spawn the core, and vLLM writes that into the environment, where the core would
    find it and spawn its workers too, each with all the imports (10 s) again. The core has no reason to.
    """
    parent = multiprocessing.parent_process()
    if parent is None or not hasattr(os, "sched_getaffinity"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent.pid:  # it died before the request
        os.kill(os.getpid(), signal.SIGKILL)
    os.environ.pop("VLLM_WORKER_MULTIPROC_METHOD", None)  # vLLM's default is to fork, and spawns where CUDA runs
    if os.environ.get(NO_COMPILATION) == "1":
        import torch._dynamo.config

        torch._dynamo.config.disable = True  # a forked process has imported torch before the variable was set
