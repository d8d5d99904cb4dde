"""Makes a launch under Triton's interpreter cheaper, and changes nothing of what it computes.

The interpreter replaces the members of ``triton.language`` by its own anew for every device
function that a kernel calls, about 0.3 ms each and half of a launch. Once a launch is enough.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType

_PATCH = "_patch_lang"


@contextmanager
def language_patched_once(language: object, core: object) -> Iterator[None]:
    """Within, every set of language modules is patched for the first function that sees it only.

    ``language`` and ``core`` are ``triton.language`` and ``triton.language.core``. An interpreter
    that is built another way is left as it is.
    """
    interpreter = sys.modules.get("triton.runtime.interpreter")
    original: Callable[[FunctionType], object] | None = getattr(interpreter, _PATCH, None)
    if original is None:
        yield
        return
    seen: set[frozenset[int]] = set()

    def patch_once(function: FunctionType) -> object:
        visible = {id(value) for value in function.__globals__.values()}
        modules = frozenset(visible & {id(language), id(core)})
        if modules in seen:
            return None
        seen.add(modules)
        return original(function)

    setattr(interpreter, _PATCH, patch_once)
    try:
        yield
    finally:
        setattr(interpreter, _PATCH, original)
