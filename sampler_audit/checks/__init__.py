"""One file a check. A check sees a Distribution and what was drawn or kept, never an engine."""

import pkgutil


def check_names() -> tuple[str, ...]:
    """The checks, found by listing this folder."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
