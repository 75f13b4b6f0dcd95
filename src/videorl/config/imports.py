"""A user's own function, named in the config as "module:function"."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from videorl.errors import UserError


def import_function(path: str, key: str) -> Callable[..., Any]:
    """Import what `key = path` names; modules in the working directory are found too.

    Raises:
        UserError: one line that names the key and what could not be imported.
    """
    module_name, colon, name = path.partition(":")
    if not (colon and module_name and name):
        raise UserError(f"{key} = {path!r}: write module:function, for example my_package.my_module:my_function")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's module raises while it is imported
        raise UserError(f"{key} = {path!r}: importing {module_name} failed: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UserError(f"{key} = {path!r}: {module_name} has no function {name}")
    return function
