"""Prints the README's shell commands, so that CI runs what a newcomer would type.

Blocks that an earlier step of the gate has run word for word can be left out by naming a word of
theirs.  usage: readme_commands.py [WORD ...]
"""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def commands(text: str) -> list[str]:
    """The lines of every ``bash`` block, in order."""
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


if __name__ == "__main__":
    skipped = set(sys.argv[1:])
    for line in commands(README.read_text(encoding="utf-8")):
        if line not in skipped:
            sys.stdout.write(f"{line}\n")
