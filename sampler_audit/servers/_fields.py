"""The sampling fields of a request: every one that the engine has, neutral or not.

An unset field is not neutral: servers fill it from model files and defaults of their own.
"""

from sampler_audit.servers._profile import SENT_FIELDS, Ask, Body, Profile
from sampler_audit.servers._reply import Json
from sampler_scenarios.params import SamplingParams

_NEUTRAL = SamplingParams()


def sampling_fields(profile: Profile, ask: Ask) -> Body:
    """The sampling fields in the engine's words; but for the seed, none where params are None."""
    seed: Body = {}
    if ask.seed is not None and "seed" in profile.fields:
        seed = {profile.fields["seed"]: ask.seed}
    if ask.params is None:
        return seed
    body = dict(profile.neutral)
    for name in SENT_FIELDS:
        if name in profile.fields and _is_sent(profile, name, ask.params):
            body[profile.fields[name]] = _value(profile, name, ask.params)
    return body | seed


def _is_sent(profile: Profile, name: str, params: SamplingParams) -> bool:
    """Empty lists stay out: engines refuse them, or read them as "nothing is allowed"."""
    value = getattr(params, name)
    neutral = value == getattr(_NEUTRAL, name)
    return not (neutral and (name in profile.omitted or value is None or value in ({}, ())))


def _value(profile: Profile, name: str, params: SamplingParams) -> Json:
    value = getattr(params, name)
    if name in profile.off and _is_off(name, params):
        return profile.off[name]
    if name == "logit_bias":
        pairs = sorted(params.logit_bias.items())
        if profile.bias_pairs:
            return [[token_id, bias] for token_id, bias in pairs]
        return {str(token_id): bias for token_id, bias in pairs}
    if isinstance(value, tuple):
        return list(value)
    neutral: Json = value
    return neutral


def _is_off(name: str, params: SamplingParams) -> bool:
    """Whether a field changes nothing; top_k has two ways to say so."""
    if name == "top_k":
        return params.top_k <= 0
    return bool(getattr(params, name) == getattr(_NEUTRAL, name))
