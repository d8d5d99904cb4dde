"""Finds out whether an LLM engine's token sampler draws from the right distribution."""

__all__ = ["version"]


def version() -> str:
    """The installed version, or ``unknown`` in a checkout that is not installed."""
    # Here, because reading the metadata costs a tenth of the start-up of ``--help``.
    from importlib import metadata

    try:
        return metadata.version("sampler-audit")
    except metadata.PackageNotFoundError:
        return "unknown"
