"""Which targets a command line asks for, each once, in its interpreter and with its options."""

from collections.abc import Sequence
from pathlib import Path

from sampler_audit.audit import TargetRequest
from sampler_audit.errors import UsageError
from sampler_audit.targets import Device, check_python, is_own, target_names
from sampler_reference.defects import DEFECTS
from sampler_scenarios.params import combo_name, make_combo

WITH_LIB = "llama_cpp"
"""The target that takes a shared library by its path."""


def choose_requests(
    names: Sequence[str],
    *,
    python: str | None,
    device: Device,
    defect: str | None,
    when: str | None,
    timeout_s: float,
    lib: str | None = None,
) -> list[TargetRequest]:
    """The targets named, or builtin and every engine.

    ``python`` is the interpreter of the engines; this tool's own targets run in this one. ``lib``
    is the shared library of WITH_LIB. All that is wrong with a target's name, its interpreter or
    its library's path is found here, before the first one runs.

    Raises:
        UsageError: an unknown target or defect, a defect planted in somebody else's engine,
            ``python`` is no interpreter, or ``lib`` is no file or nobody's.
    """
    options = _defect_options(defect, when)
    engines = [name for name in target_names() if not is_own(name)]
    chosen = list(dict.fromkeys(names)) or ["builtin", *([] if options else engines)]
    own = {name for name in chosen if is_own(name)}
    if options and chosen != ["builtin"]:
        raise UsageError(f"--defect plants a fault in builtin, not in {', '.join(chosen)}")
    if python is not None:
        if own == set(chosen):
            raise UsageError(f"--python is for engines, not for {', '.join(chosen)}")
        check_python(python)
    if lib is not None:
        _check_lib(lib, chosen)
    return [
        TargetRequest(
            name=name,
            python=None if name in own else python,
            device=device,
            options={**options, "lib": lib} if lib and name == WITH_LIB else options,
            timeout_s=timeout_s,
        )
        for name in chosen
    ]


def _check_lib(lib: str, chosen: Sequence[str]) -> None:
    if WITH_LIB not in chosen:
        raise UsageError(f"--lib is the library of {WITH_LIB}, not of {', '.join(chosen)}")
    if not Path(lib).is_file():
        raise UsageError(f"--lib {lib} is no file; give the path of a libllama.so")


def _defect_options(defect: str | None, when: str | None) -> dict[str, str]:
    if defect is None:
        if when is not None:
            raise UsageError("--when says when a planted defect acts; give --defect NAME too")
        return {}
    if defect not in DEFECTS:
        raise UsageError(f"unknown defect {defect!r}; known: {', '.join(DEFECTS)}")
    if when is None:
        return {"defect": defect}
    try:
        return {"defect": defect, "when": combo_name(make_combo(when.split("+")))}
    except ValueError as exc:
        raise UsageError(f"--when: {exc}") from exc
