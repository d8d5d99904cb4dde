"""Which targets a command line asks for, each once, in its interpreter and with its options."""

from collections.abc import Sequence

from sampler_audit.audit import TargetRequest
from sampler_audit.errors import UsageError
from sampler_audit.targets import Device, check_python, is_own, target_names
from sampler_reference.defects import DEFECTS
from sampler_scenarios.params import combo_name, make_combo


def choose_requests(
    names: Sequence[str],
    *,
    python: str | None,
    device: Device,
    defect: str | None,
    when: str | None,
    timeout_s: float,
) -> list[TargetRequest]:
    """The targets named, or builtin and every engine.

    ``python`` is the interpreter of the engines; this tool's own targets run in this one. All that
    is wrong with a target's name or its interpreter is found here, before the first one runs.

    Raises:
        UsageError: an unknown target or defect, a defect planted in somebody else's engine, or
            ``python`` is no interpreter.
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
    return [
        TargetRequest(
            name=name,
            python=None if name in own else python,
            device=device,
            options=options,
            timeout_s=timeout_s,
        )
        for name in chosen
    ]


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
