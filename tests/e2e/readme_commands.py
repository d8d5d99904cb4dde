"""Prints the README's shell commands, so that CI runs what a newcomer would type.

Commands that another step of the gate runs word for word are left out by a part of their text.
usage: readme_commands.py [PART ...]
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
    for line in commands(README.read_text(encoding="utf-8")):
        if not any(part in line for part in sys.argv[1:]):
            sys.stdout.write(f"{line}\n")
