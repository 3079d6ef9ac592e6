"""Objects of a user's own module, given as ``module:name``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from shiftgauge.errors import InputError


def import_object(text: str, option: str) -> Any:
    """The object that ``module:name`` names; modules of the working directory are found too.

    >>> import_object("math:pi", "--estimator")
    3.141592653589793
    """
    module, _, name = text.partition(":")
    if not module or not name:
        raise InputError(f"{option} is {text!r}; it must be like my_module:my_name")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{option} is {text!r}, and it cannot be imported ({error})") from None
