"""The yardstick: the row of log-probs at a position, by whichever way the server offers."""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from sampler_audit.errors import ServerError, ServerNonsense
from sampler_audit.servers._exchange import Exchange
from sampler_audit.servers._profile import Ask, Prompt
from sampler_audit.servers._rows import Row, join_rows

T = TypeVar("T")


async def all_of(jobs: Iterable[Coroutine[None, None, T]]) -> list[T]:
    """The results in order; the first failure ends all of them and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def prompt_rows(
    exchange: Exchange, token_ids: Sequence[int], *, start: int, k: int, cached: bool
) -> tuple[Row, ...]:
    """The rows that predict tokens ``start`` and on of a prompt."""
    ask = Ask(model=exchange.model, prompt=tuple(token_ids), logprobs=k, cached=cached, start=start)
    return tuple(exchange.row(step, k) for step in await exchange.prompt_steps(ask))


async def sentinel_row(
    exchange: Exchange, token_ids: Sequence[int], *, k: int, cached: bool
) -> Row:
    """What predicts a token that is put behind the prompt and then forgotten."""
    if not token_ids:
        raise ServerError("a prompt needs at least one token to have a row behind it")
    longer = (*token_ids, token_ids[-1])
    rows = await prompt_rows(exchange, longer, start=len(token_ids), k=k, cached=cached)
    return _filled(replace(rows[-1], own=None, own_logprob=float("nan")), exchange)


async def output_row(exchange: Exchange, prompt: Prompt, *, k: int, cached: bool) -> Row:
    """The list beside one token that is drawn without filters at temperature 1.

    So asked, the row is the model's own even where an engine lists what its filters leave.
    """
    ask = Ask(model=exchange.model, prompt=prompt, logprobs=k, cached=cached)
    (choice,) = await exchange.choices(ask)
    if not choice:
        raise ServerNonsense(
            f"POST {exchange.profile.wire.path}: the model ended at once and listed nothing; choose"
            " another prompt"
        )
    return _filled(exchange.row(choice[0], k), exchange)


async def chosen_row(
    exchange: Exchange, prompt: Prompt, token_ids: Sequence[int], *, cached: bool
) -> Row:
    """The log-probs of exactly these tokens, in slices of as many as a request may choose."""
    most = exchange.profile.chosen_ids
    if not most or not token_ids:
        raise ServerError(
            f"{exchange.profile.title} lists chosen token ids only where it has a field for them"
            " and the vocabulary's size is known"
        )
    slices = [tuple(token_ids[at : at + most]) for at in range(0, len(token_ids), most)]
    rows = await all_of(_slice(exchange, prompt, ids, cached=cached) for ids in slices)
    return join_rows(rows, exchange.vocabulary, f"POST {exchange.profile.wire.path}")


async def _slice(
    exchange: Exchange, prompt: Prompt, token_ids: tuple[int, ...], *, cached: bool
) -> Row:
    ask = Ask(model=exchange.model, prompt=prompt, token_ids=token_ids, cached=cached)
    (choice,) = await exchange.choices(ask)
    chosen = [entry for step in choice for entry in step.listed if entry.token in set(token_ids)]
    if len({entry.token for entry in chosen}) < len(set(token_ids)):
        raise ServerNonsense(
            f"POST {exchange.profile.wire.path}: {len(token_ids)} chosen tokens were asked for, and"
            f" {len(chosen)} came: this version, or a gateway, ignores the field"
        )
    return exchange.row(replace(choice[0], own=None, listed=tuple(chosen)), None)


def _filled(row: Row, exchange: Exchange) -> Row:
    if not len(row.token_ids):
        raise ServerNonsense(
            f"POST {exchange.profile.wire.path}: log-probs were asked for, and none came: this"
            " version, or a gateway, ignores the field"
        )
    return row
