from dataclasses import replace

import pytest

from sampler_audit.sampler.filter_plan import ONE_CALL, TEMPERATURE, Pass, filter_plan
from sampler_reference.conventions import CONVENTIONS


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("sampler-audit", ONE_CALL),
        ("vllm-triton", ONE_CALL),
        (
            "vllm-pytorch",
            (TEMPERATURE, (Pass(("min_p", "top_k"), "keep_all"),), (Pass(("top_p",)),)),
        ),
        (
            "huggingface",
            (
                TEMPERATURE,
                (Pass(("top_k",), "keep_all"),),
                (Pass(("top_p",)),),
                (Pass(("min_p",)),),
            ),
        ),
        (
            "flashinfer",
            (TEMPERATURE, (Pass(("top_k", "top_p"), "keep_all"),), (Pass(("min_p",)),)),
        ),
        (
            "flashinfer-joint",
            (
                TEMPERATURE,
                (Pass(("top_k",), "keep_all"), Pass(("top_p",), "keep_all")),
                (Pass(("min_p",)),),
            ),
        ),
        ("llama.cpp", ((Pass(("top_k", "top_p")),), (Pass(("min_p",)),), TEMPERATURE)),
    ],
)
def test_the_calls_of_each_convention(name: str, plan: object) -> None:
    """One call for neighbours where the kernel's order and one tie rule do: min_p, top_k, top_p."""
    assert filter_plan(CONVENTIONS[name]) == plan


def test_a_rule_that_the_kernels_do_not_know() -> None:
    """They keep the token that crosses top_p."""
    conventions = replace(CONVENTIONS["huggingface"], name="strict", crossing_kept=False)
    with pytest.raises(ValueError, match=r"conventions that drop it cannot run, got strict$"):
        filter_plan(conventions)
