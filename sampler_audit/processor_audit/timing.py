"""How long a step takes against the size of the batch: a report, never a verdict."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from sampler_audit.processor_audit.instance import Instance, Subject
from sampler_audit.processor_audit.player import Setting
from sampler_audit.processor_audit.scene import Scene

_N_WARM = 2
_N_TIMED = 7


def step_microseconds(
    subject: Subject, settings: Sequence[Setting], scene: Scene, batch_size: int
) -> float:
    """Median time of one step whose batch has not changed, with the settings in turn."""
    instance = Instance(replace(subject, max_requests=batch_size))
    guests = [
        scene.new_guest(number, settings[(number + 1) % len(settings)].params)
        for number in range(batch_size)
    ]
    slots = [instance.add(guest.request) for guest in guests]
    logits = torch.cat([scene.logits(guest, 1, masked=False) for guest in guests])
    taken = []
    for _ in range(_N_WARM + _N_TIMED):
        given = logits.clone()
        start = time.perf_counter()
        instance.step(given, slots, [[] for _ in slots])
        taken.append(time.perf_counter() - start)
    return 1e6 * statistics.median(taken[_N_WARM:])
