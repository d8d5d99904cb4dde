"""aphrodite: vLLM's surface from an older fork point, without chosen ids.

Read in aphrodite b42eeec2 (aphrodite/sampling_params.py, aphrodite/v1/sample).
"""

from dataclasses import replace

from sampler_audit.servers._profile import Signs
from sampler_audit.servers.vllm import PROFILE as VLLM
from sampler_reference.conventions import CONVENTIONS

PROFILE = replace(
    VLLM,
    name="aphrodite",
    title="aphrodite",
    signs=Signs(owned_by="aphrodite"),
    conventions=(
        replace(
            CONVENTIONS["vllm-pytorch"],
            name="aphrodite",
            sources="aphrodite b42eeec2: aphrodite/v1/sample/ops",
        ),
    ),
    methods=("sentinel", "output"),
    chosen_ids=0,
    vocab_probe=None,
    # Its own filters at the values that switch them off; a server preset may set them otherwise.
    neutral={
        "dry_multiplier": 0,
        "top_a": 0,
        "tfs": 1,
        "eta_cutoff": 0,
        "epsilon_cutoff": 0,
        "typical_p": 1,
        "smoothing_factor": 0,
        "xtc_probability": 0,
        "mirostat_mode": 0,
        "temperature_last": False,
    },
    seed_max=2**31 - 1,
    acceptance=None,
)
