"""torch: the torch twins of this project's kernels, without Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._engine import Engine

DESCRIPTION = "the torch twins of this project's kernels, which run anywhere"
INSTALL = "pip install --force-reinstall sampler-audit"
ANY_PYTHON = False


def load(options: dict[str, str]) -> Engine:
    """The twins decide everything."""
    from sampler_audit.targets._sampler_engine import SamplerEngine

    return SamplerEngine(options, "twin", "torch twins of the kernels")
