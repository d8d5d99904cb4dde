"""builtin: this project's own sampler on its Triton kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._engine import Engine

DESCRIPTION = "this project's sampler: Triton kernels keep, their torch twins draw in bulk"
INSTALL = "pip install --force-reinstall sampler-audit"
ANY_PYTHON = False


def load(options: dict[str, str]) -> Engine:
    """The kernels decide the kept set and the draws that are asked of them."""
    from sampler_audit.targets._sampler_engine import SamplerEngine

    return SamplerEngine(options, "kernel", "Triton kernels; bulk draws by the torch twins")
