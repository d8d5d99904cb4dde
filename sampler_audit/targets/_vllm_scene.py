"""A scene played on one of vLLM's samplers: what the targets vllm_v1 and vllm_v2 share.

Runs in the interpreter under audit: nothing of ours. What a scene holds is said in scenes.py.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ._engine import Engine
from ._vllm_requests import Model, vllm_params

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ._engine import Params

_ROOM = 8
"""Tokens that may follow the longest request of a batch."""

_REMEMBERED = 4
"""Batches of which the filtered rows are kept for draws: a row alone, among mates, elsewhere."""


class VllmSceneEngine(Engine):
    """Every question is answered by a fresh sampler that has been through the scene's past.

    ``make`` is the class V1Sampler or V2Sampler.
    """

    def __init__(self, make: Any, fields: Mapping[str, Any]) -> None:
        self._make = make
        self._fields = fields
        self._scene: tuple[Mapping[str, Any], Params] | None = None
        self._filtered: dict[Any, NDArray[np.float32]] = {}

    def info(self) -> dict[str, Any]:
        """See ``_engine.Engine``."""
        return dict(self._fields)

    def within(self, scene: Mapping[str, Any], arrays: Params) -> Engine:
        """See ``_engine.Engine``."""
        engine = copy(self)
        engine._scene = scene, arrays
        return engine

    def kept(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.bool_]:
        """See ``_engine.Engine``."""
        return self.filtered(logits, params) > -np.inf

    def filtered(self, logits: NDArray[np.float32], params: Params) -> NDArray[np.float32]:
        """See ``_engine.Engine``; of a greedy row the first largest logit."""
        key = self._key(logits, params)
        scene, grammars = self._told(params)
        sampler = _played(self._make, logits, scene)
        names = [str(i) for i in range(len(scene["requests"]))]
        grammar = _grammar(scene, grammars, logits.shape)
        found = sampler.process(logits, names, grammar=grammar, filters=True)["processed"]
        filtered: NDArray[np.float32] = np.ascontiguousarray(found)
        for i, temperature in enumerate(params["temperature"].tolist()):
            if _temperature(temperature) == 0:
                best = int(filtered[i].argmax())
                filtered[i, np.arange(filtered.shape[1]) != best] = -np.inf
        self._filtered[key] = filtered
        if len(self._filtered) > _REMEMBERED:
            del self._filtered[next(iter(self._filtered))]
        return filtered

    def draw(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,
        seeds: NDArray[np.int64],
        positions: NDArray[np.int64],
        kernel: bool,
    ) -> NDArray[np.int64]:
        """See ``_engine.Engine``.

        The stages, which no seed enters, run once for the draws that are asked of one batch.
        """
        filtered = self._filtered.get(self._key(logits, params))
        if filtered is None:
            filtered = self.filtered(logits, params)
        temperature = _temperature(float(params["temperature"][index]))
        tokens: NDArray[np.int64] = self._make.draw(
            filtered[index], temperature, seeds, positions, kernel
        )
        return tokens

    def step(
        self,
        logits: NDArray[np.float32],
        params: Params,
        index: int,  # noqa: ARG002 - every request takes part
        seeds: NDArray[np.int64],
    ) -> dict[str, NDArray[Any]]:
        """See ``_engine.Engine``."""
        scene, grammars = self._told(params)
        sampler = _played(self._make, logits, scene, seeds.tolist())
        names = [str(i) for i in range(len(scene["requests"]))]
        grammar = _grammar(scene, grammars, logits.shape)
        return _told_step(sampler.step(logits, names, grammar=grammar), scene["requests"])

    def _told(self, params: Params) -> tuple[Mapping[str, Any], NDArray[np.bool_] | None]:
        """The scene and its grammars; requests without history where filters are all there is."""
        if self._scene is not None:
            return self._scene[0], self._scene[1].get("grammars")
        names = ("temperature", "top_k", "top_p", "min_p")
        columns = [params[name].tolist() for name in names]
        plain = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        requests = [{"params": p, "prompt": [0], "output": [], "grammar": None} for p in plain]
        return {"requests": requests, "leavers": [], "past": [], "model": {}}, None

    def _key(self, logits: NDArray[np.float32], params: Params) -> tuple[Any, ...]:
        """Equal for the same question."""
        scene = json.dumps(self._scene[0]) if self._scene else ""
        arrays = tuple(array.tobytes() for array in params.values())
        return logits.tobytes(), logits.shape, arrays, scene


@lru_cache(maxsize=64)
def _temperature(asked: float) -> float:
    """What vLLM makes of it: it raises small ones."""
    return float(vllm_params({"temperature": asked}, Model(vocab_size=1)).temperature)


def _played(
    make: Any,
    logits: NDArray[np.float32],
    scene: Mapping[str, Any],
    seeds: Sequence[int] | None = None,
) -> Any:
    """A sampler in which the past has happened and the requests of the scene are present."""
    everyone = [*scene["requests"], *scene["leavers"]]
    seeds = seeds or [0] * len(scene["requests"])
    facts = {k: v for k, v in scene["model"].items() if k != "max_model_len"}
    longest = max(len(request["prompt"]) + len(request["output"]) for request in everyone)
    sampler = make(
        **{"vocab_size": logits.shape[1], **facts},
        max_requests=max(map(len, [scene["requests"], *scene["past"]])),
        max_model_len=longest + _ROOM,
    )
    steps_left = Counter(i for order in scene["past"] for i in order)
    present: set[int] = set()

    def admit(order: Sequence[int]) -> None:
        for gone in present.difference(order):
            sampler.remove(str(gone))
        for i in order:
            if i not in present:
                seed = seeds[i] if i < len(seeds) else 0
                _add(sampler, str(i), everyone[i], seed, steps_left[i])
        present.clear()
        present.update(order)

    for order in scene["past"]:
        admit(order)
        names = [str(i) for i in order]
        sampler.schedule(names)
        emitted = [[_emitted(everyone[i], steps_left[i])] for i in order]
        sampler.commit(names, emitted)
        steps_left.subtract(order)
    admit(range(len(scene["requests"])))
    return sampler


def _add(sampler: Any, name: str, request: Mapping[str, Any], seed: int, steps_left: int) -> None:
    settings = {**request["params"], "seed": seed, "grammar": request["grammar"] is not None}
    settings["logit_bias"] = dict(settings.get("logit_bias", ()))
    output = request["output"]
    sampler.add(name, settings, request["prompt"], output[: len(output) - steps_left])


def _emitted(request: Mapping[str, Any], steps_left: int) -> int:
    token: int = request["output"][len(request["output"]) - steps_left]
    return token


def _grammar(
    scene: Mapping[str, Any], grammars: NDArray[np.bool_] | None, shape: tuple[int, ...]
) -> NDArray[np.bool_] | None:
    """What each row may hold, ``[n_rows, vocab_size]``; None where no row has a grammar."""
    if grammars is None:
        return None
    allowed = np.ones(shape, np.bool_)
    for i, request in enumerate(scene["requests"]):
        if request["grammar"] is not None:
            allowed[i] = grammars[request["grammar"]]
    return allowed


def _told_step(
    found: Mapping[str, NDArray[Any]], requests: Sequence[Mapping[str, Any]]
) -> dict[str, NDArray[Any]]:
    """A step's arrays as ``_engine.Engine.step`` has them.

    The samplers pad lists to the longest of the batch, and repeat the sampled token where it is
    among the likeliest; what is left for a request is cut out as vLLM's output processor does.
    """
    tokens = found["token_ids"][:, 0].astype(np.int64)
    lists = [
        None
        if (width := _listed(request["params"], len(found["ids"][i]) - 1 if found else 0)) is None
        else _list(found, i, width)
        for i, request in enumerate(requests)
    ]
    given = [each for each in lists if each is not None]
    return {
        "token_ids": tokens,
        "n_listed": np.array([-1 if e is None else e[0].size for e in lists], np.int64),
        "listed_ids": np.concatenate([[], *(ids for ids, _, _ in given)]).astype(np.int64),
        "listed_values": np.concatenate([[], *(v for _, v, _ in given)]).astype(np.float32),
        "listed_ranks": np.concatenate([[], *(ranks for _, _, ranks in given)]).astype(np.int64),
    }


def _listed(params: Mapping[str, Any], most: int) -> int | None:
    """How many tokens the request lists beside the sampled one; None where it lists nothing."""
    chosen, n = params.get("logprob_token_ids"), params.get("logprobs")
    if chosen is not None:
        return len(chosen)
    if n is None:
        return None
    return most if n < 0 else int(n)


def _list(found: Mapping[str, NDArray[Any]], i: int, width: int) -> tuple[NDArray[Any], ...]:
    """Ids, values and ranks, of which only the sampled token's is known."""
    ids, values = found["ids"][i, : width + 1], found["scores"][i, : width + 1]
    ranks = np.full(ids.size, -1)
    ranks[0] = found["ranks"][i]
    once = (np.arange(ids.size) == 0) | (ids != ids[0])
    return ids[once], values[once], ranks[once]
