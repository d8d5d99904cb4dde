"""Rows by name: what loads, what is refused and how."""

import os
import subprocess
import sys

import pytest

from sampler_scenarios.real_rows import REAL_ROWS
from sampler_scenarios.rows import (
    KINDS,
    LARGE_VOCAB_SIZES,
    MAX_VOCAB_SIZE,
    VOCAB_SIZES,
    check_row_name,
    kind_of,
    load_row,
    vocab_size_of,
)

CHECKSUM = """
import zlib
from sampler_scenarios.rows import KINDS
print(zlib.crc32(b"".join(kind.build(8193).tobytes() for kind in KINDS)))
"""


def checksum(hash_seed: str) -> str:
    """Of every made row at 8193 tokens, in a new interpreter."""
    env = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CHECKSUM], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_rows_repeat_in_another_interpreter() -> None:
    """A row is the same in every process, whatever Python's hash seed."""
    assert checksum("1") == checksum("2") != ""


@pytest.mark.parametrize("name", [f"{kind.name}@8193" for kind in KINDS])
def test_made_row_carries_its_kind(name: str) -> None:
    """A row knows its name and its kind's reason, and has the vocabulary of its name."""
    row = load_row(name)
    (kind,) = (kind for kind in KINDS if kind.name == kind_of(name))
    assert (row.name, row.why, row.logits.size) == (name, kind.why, vocab_size_of(name))


@pytest.mark.parametrize("name", ["zipf@129", "real-he-scored@49152", "real-he-scored@100"])
def test_rows_are_read_only(name: str) -> None:
    """A shared row refuses to be changed."""
    with pytest.raises(ValueError, match="read-only"):
        load_row(name).logits[0] = 0


def test_rows_are_cached() -> None:
    """Loading twice costs one build."""
    assert load_row("zipf@129") is load_row("zipf@129")


@pytest.mark.parametrize("slug", REAL_ROWS)
def test_real_rows_load_by_name(slug: str) -> None:
    """A real row's reason quotes its prompt's first word, and its size follows the name."""
    row = load_row(f"{slug}@4096")
    assert (row.logits.shape, row.logits.dtype.name) == ((4096,), "float32")
    assert "own row after" in row.why
    assert kind_of(row.name) == slug


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("zipff@129", "unknown row 'zipff'; known: dense-normal, zipf,"),
        ("real-nothing@129", "unknown row 'real-nothing'; known: real-the-weather-today-is,"),
        ("he-scored@129", "unknown row 'he-scored'"),
        ("zipf", "KIND@VOCAB_SIZE"),
        ("zipf@", "KIND@VOCAB_SIZE"),
        ("zipf@0129", "KIND@VOCAB_SIZE"),
        ("zipf@+129", "KIND@VOCAB_SIZE"),
        ("zipf@1_000", "KIND@VOCAB_SIZE"),
        ("zipf@12²", "KIND@VOCAB_SIZE"),
        ("zipf@١٢", "KIND@VOCAB_SIZE"),
        ("zipf@" + "9" * 5000, "KIND@VOCAB_SIZE"),
        ("zipf@0", "zipf needs a vocabulary of 1 to 1048576 tokens, got 0"),
        (f"zipf@{MAX_VOCAB_SIZE + 1}", "zipf needs a vocabulary of 1 to 1048576"),
        ("finite-8-front@8", "finite-8-front needs a vocabulary of 9 to"),
        ("outside-first-block@8192", "needs a vocabulary of 8193 to"),
        ("real-he-scored@49153", "needs a vocabulary of 1 to 49152 tokens, got 49153"),
    ],
)
def test_bad_names_are_refused(name: str, message: str) -> None:
    """The check and the load refuse alike: what was given, and what is known or in range."""
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        check_row_name(name)
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        load_row(name)


def test_large_vocabularies_are_listed() -> None:
    """What is marked large is among the sizes, and so is something around each tile edge."""
    assert set(VOCAB_SIZES) > LARGE_VOCAB_SIZES
    assert {127, 128, 129, 8191, 8192, 8193} <= set(VOCAB_SIZES)
