"""The command ``demo-server``: arguments become settings of the demo server. Imports it late."""

from typing import Annotated

import typer

from sampler_audit.options import SeedOption, nats, one_of, whole


def demo_server(
    engine_style: Annotated[
        str,
        typer.Option(
            parser=one_of("vllm", "llama", "openai20"),
            metavar="vllm|llama|openai20",
            help="The engine in whose words it answers; openai20 tells strings and 20 log-probs.",
        ),
    ] = "vllm",
    defect: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Plant a defect; an unknown name lists them."),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(metavar="COMBO", help="The planted defect acts only when these are all on."),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            parser=nats, metavar="NATS", help="Error of every log-prob, new in each forward pass."
        ),
    ] = 0.0,
    offset: Annotated[
        float,
        typer.Option(
            parser=nats, metavar="NATS", help="Constant difference between draws and prompt rows."
        ),
    ] = 0.0,
    speculative: Annotated[
        bool, typer.Option("--speculative", help="Tokens after the first come from drafts.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; default: this machine only.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(parser=whole(0), metavar="N", help="0 takes a free one.")
    ] = 8000,
    seed: SeedOption = None,
) -> int:
    """Serve our own sampler over HTTP, right or with a planted defect, to try an audit on.

    The model is built in and tiny. Ctrl-C ends it.
    """
    import threading

    from sampler_audit.demo import DemoSettings, start_demo_server

    settings = DemoSettings(
        style=engine_style,
        defect=defect,
        when=when,
        noise=noise,
        offset=offset,
        speculative=speculative,
        seed=seed,
    )
    try:
        with start_demo_server(settings, host=host, port=port) as server:
            typer.echo(f"serving at {server.url}; Ctrl-C ends it")
            threading.Event().wait()
    except KeyboardInterrupt:
        return 130
    return 0
