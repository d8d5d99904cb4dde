"""What a custom logits processor can be refused for; each is also the built-in kind it is one of.

UsageError
├── ProcessorRefused     ValueError      no processor, or none that this sampler takes
├── ProcessorNotLoaded   RuntimeError    its module raised while it was imported
└── ProcessorNotFound    AttributeError  its module has no such name
SamplerAuditError
└── ProcessorMisbehaved  TypeError       it answered something that its interface forbids
"""

import torch

from sampler_audit.errors import SamplerAuditError, UsageError


class ProcessorRefused(UsageError, ValueError):
    """What was named is no logits processor, or none that may run here."""


class ProcessorNotLoaded(UsageError, RuntimeError):
    """The module or plug-in raised while it was imported; the cause is chained."""


class ProcessorNotFound(UsageError, AttributeError):
    """The module was imported and has no such name."""


class ProcessorMisbehaved(SamplerAuditError, TypeError):
    """A method of a processor returned something that its interface does not allow."""


def checked_logits(answer: object, given: torch.Tensor, who: str) -> torch.Tensor:
    """``answer``, which ``who`` made of the logits ``given``: of the same shape and dtype.

    Raises:
        ProcessorMisbehaved: it is not.
    """
    if not isinstance(answer, torch.Tensor):
        got = repr(answer)
    elif (answer.shape, answer.dtype) != (given.shape, given.dtype):
        got = _described(answer)
    else:
        return answer
    raise ProcessorMisbehaved(f"{who} must return the logits, {_described(given)}, got {got}")


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
