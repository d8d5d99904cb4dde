"""Compiles every kernel for GPUs that are not here, and says what each costs there.

``python -m sampler_kernels.ahead_of_time`` prints one JSON object a kernel, variant and target.
It needs no GPU; where the interpreter is on, it starts itself again without. Kernels are found, not
listed: whatever ``jit`` made of a function that returns None, in any module of this package.
"""

import argparse
import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product

from sampler_kernels._arguments import MIN_BLOCK_SIZE
from sampler_kernels._recount import PAIR_BLOCK_SIZE
from sampler_kernels._rows import CAPACITY_LIMIT, DEVICE_BLOCK_SIZE
from sampler_kernels._triton import INTERPRETED

NVIDIA_TARGETS = {"sm_80": 80, "sm_90": 90, "sm_100": 100}
AMD_TARGETS = {"gfx942": "gfx942"}
TARGETS = (*NVIDIA_TARGETS, *AMD_TARGETS)

VARIANTS = ("fp32", "bf16", "fp16", "one_token")
"""Dtype of the logits. Triton compiles anew for multiples of 16 and for 1: fp32 and bf16 have a
vocabulary and stride as of a model, multiples of 16; fp16 has others, and top_k and emitted
tokens in int32; ``one_token`` is fp32 with what is 1 as constants, and takes the other branch of
every switch."""

VARIANT_NOISES = {"fp32": 0, "bf16": 1, "fp16": 3, "one_token": 2}
"""Index in NOISES: those in fp64 have the full tile, where they could spill."""

PARAMETER_TYPES = {
    "logits_ptr": "*{logits}",
    "masked_ptr": "*{logits}",
    "row_stride": "i32",
    "vocab_size": "i32",
    "n_rows": "i32",
    "temperature_ptr": "*fp32",
    "scaled_ptr": "*fp32",
    "log_min_p_ptr": "*fp64",
    "top_k_ptr": "*{top_k}",
    "top_p_ptr": "*fp32",
    "state_ptr": "*i64",
    "kept_logits_ptr": "*fp32",
    "kept_ids_ptr": "*i32",
    "bins_ptr": "*i64",
    "n_kept_ptr": "*i64",
    "mask_ptr": "*i8",
    "n_wanted": "i32",
    "ranks_ptr": "*i64",
    "z_max_ptr": "*fp32",
    "log_mass_ptr": "*fp64",
    "draft_logits_ptr": "*{logits}",
    "draft_stride": "i32",
    "draft_z_max_ptr": "*fp32",
    "draft_log_mass_ptr": "*fp64",
    "row_starts_ptr": "*i64",
    "draft_ids_ptr": "*i32",
    "log_p_ptr": "*fp64",
    "log_ratio_ptr": "*fp64",
    "n_valid_ptr": "*i32",
    "residual_mass_ptr": "*fp64",
    "n_accepted_ptr": "*i64",
    "rows_ptr": "*i64",
    "seeds_ptr": "*i64",
    "positions_ptr": "*i64",
    "token_ids_ptr": "*i64",
    "fp32_logits_ptr": "*fp32",
    "slots_ptr": "*i64",
    "n_slots": "i32",
    "history_ptr": "*i32",
    "max_len": "i32",
    "prompt_len_ptr": "*i32",
    "total_len_ptr": "*i32",
    "drafts_ptr": "*i32",
    "max_drafts": "i32",
    "n_drafts_ptr": "*i32",
    "bitmask_ptr": "*i32",
    "n_words": "i32",
    "listed_ids_ptr": "*i32",
    "cap": "i32",
    "counts_ptr": "*i32",
    "biases_ptr": "*fp32",
    "min_tokens_ptr": "*i32",
    "restore_ptr": "*i1",
    "repetition_ptr": "*fp32",
    "frequency_ptr": "*fp32",
    "presence_ptr": "*fp32",
    "output_counts_ptr": "*i32",
    "emitted_ptr": "*{emitted}",
    "n_columns": "i32",
    "n_tokens": "i32",
    "window": "i32",
    "words_ptr": "*i32",
    "offsets_ptr": "*i32",
    "max_words": "i32",
    "n_words_ptr": "*i32",
    "budgets_ptr": "*i32",
    "start_ptr": "*i32",
    "start_len": "i32",
    "end_ptr": "*i32",
    "end_len": "i32",
}

# AMD's assembly is not searched: it divides and converts to integers by exact sequences of fma.
_NOT_IEEE = re.compile(
    r"llvm\.(?:fma|fmuladd|exp2?|log2?)\b|llvm\.\w+\.(?:ex2|lg2|div)\.approx"
    r"|\bf(?:mul|add|sub|div) (?:\w+ )*(?:fast|contract|afn|arcp|reassoc)\b"
)
# floor is cvt.rmi.ftz; the argument of every floor here is a multiple of 2^-25, never subnormal.
_NOT_IEEE_PTX = re.compile(
    r"\b\w+\.approx\b|\b(?:fma|mad)\.\w+\.f\d+|(?<![\w.])(?!cvt\.rmi)[\w.]+\.ftz\b"
)


@dataclass(frozen=True)
class Compiled:
    """What the compiler made of one kernel.

    Attributes:
        kernel: Name of the kernel.
        variant: One of VARIANTS.
        target: One of TARGETS.
        registers: Registers a thread (vector registers on AMD).
        spills: Bytes spilled on NVIDIA, vector registers spilled on AMD.
        approximate: Instructions that are not IEEE arithmetic, or fuse two roundings into one.
    """

    kernel: str
    variant: str
    target: str
    registers: int
    spills: int
    approximate: tuple[str, ...]


def find_kernels() -> dict[str, Callable[..., None]]:
    """Every kernel of this package by name."""
    package = importlib.import_module("sampler_kernels")
    kernels: dict[str, Callable[..., None]] = {}
    for info in pkgutil.iter_modules(package.__path__, "sampler_kernels."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            function = getattr(value, "fn", None)
            if function is None or function.__module__ != info.name:
                continue
            if inspect.signature(function).return_annotation is None:
                kernels[name] = value
    return kernels


def compile_kernel(name: str, variant: str, target: str) -> Compiled:
    """Compile one kernel with the options that ``launch`` uses.

    Raises:
        KeyError: a parameter is missing in PARAMETER_TYPES.
    """
    from triton import compile as triton_compile
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = find_kernels()[name]
    signature, constants = _signature(kernel, variant)
    multiples = () if variant == "fp16" else ("row_stride", "vocab_size")
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (parameter, type_name) in enumerate(signature.items())
        if type_name.startswith("*") or (parameter in multiples and type_name != "constexpr")
    }
    gpu = (
        GPUTarget("cuda", NVIDIA_TARGETS[target], 32)
        if target in NVIDIA_TARGETS
        else GPUTarget("hip", AMD_TARGETS[target], 64)
    )
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": 8, "enable_fp_fusion": False}
    assembly = triton_compile(source, target=gpu, options=options).asm
    approximate = {match[0] for match in _NOT_IEEE.finditer(assembly["llir"])}
    if target in NVIDIA_TARGETS:
        approximate |= {match[0] for match in _NOT_IEEE_PTX.finditer(assembly["ptx"])}
        registers, spills = _nvidia_resources(assembly["cubin"])
    else:
        registers, spills = _amd_resources(assembly["amdgcn"])
    return Compiled(name, variant, target, registers, spills, tuple(sorted(approximate)))


def _signature(
    kernel: Callable[..., None], variant: str
) -> tuple[dict[str, str], dict[str, int | bool]]:
    constants: dict[str, int | bool] = {
        "KEEP_ALL": variant == "one_token",
        "RADIX_ONLY": variant == "one_token",
        "FP32_MIN_P": variant == "one_token",
        "WANT_MASK": variant != "one_token",
        "HAS_DRAFT_LOGITS": variant != "one_token",
        "BLOCK_METHOD": variant in ("fp32", "one_token"),
        "NOISE": VARIANT_NOISES[variant],
        "DOMAIN": VARIANTS.index(variant),
        "PROMPT_IN_REPETITION": variant != "one_token",
        "PROMPT_IN_COUNTS": variant == "one_token",
        "RECIPROCAL": variant == "one_token",
        "BY_SIGN": variant != "one_token",
        "PAIR_BLOCK_SIZE": PAIR_BLOCK_SIZE,
        "CAPACITY": CAPACITY_LIMIT,
        "BLOCK_SIZE": DEVICE_BLOCK_SIZE,
    }
    if variant == "one_token":
        constants |= {name: 1 for name, kind in PARAMETER_TYPES.items() if kind == "i32"}
        constants |= {"CAPACITY": 1, "PAIR_BLOCK_SIZE": 1, "BLOCK_SIZE": MIN_BLOCK_SIZE}
    types = {
        "logits": "fp32" if variant == "one_token" else variant,
        "top_k": "i32" if variant == "fp16" else "i64",
        "emitted": "i32" if variant == "fp16" else "i64",
    }
    names = list(inspect.signature(getattr(kernel, "fn", kernel)).parameters)
    signature = {
        name: "constexpr" if name in constants else PARAMETER_TYPES[name].format_map(types)
        for name in names
    }
    return signature, {name: value for name, value in constants.items() if name in names}


def _nvidia_resources(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes of a thread; these kernels use the stack for nothing but spills."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (registers, stack, local), *_ = re.findall(r"REG:(\d+) STACK:(\d+).*? LOCAL:(\d+)", usage)
    return int(registers), int(stack) + int(local)


def _amd_resources(assembly: str) -> tuple[int, int]:
    registers = re.findall(r"\.vgpr_count:\s+(\d+)", assembly)
    spills = re.findall(r"\.vgpr_spill_count:\s+(\d+)", assembly)
    return max(map(int, registers)), sum(map(int, spills))


def main() -> int:
    """Compile everything that is asked for and print it, one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", action="append", choices=VARIANTS)
    parser.add_argument("--target", action="append", choices=TARGETS)
    arguments = parser.parse_args()
    if INTERPRETED:
        command = [sys.executable, "-m", "sampler_kernels.ahead_of_time", *sys.argv[1:]]
        compiled_only = os.environ | {"TRITON_INTERPRET": "0"}
        return subprocess.run(command, env=compiled_only, check=False).returncode
    jobs = product(find_kernels(), arguments.variant or VARIANTS, arguments.target or TARGETS)
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for compiled in pool.map(compile_kernel, *zip(*jobs, strict=True)):
            sys.stdout.write(json.dumps(asdict(compiled)) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
