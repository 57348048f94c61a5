"""Updates the table of figures in README from the results named above it; `--check` only reports whether it is stale.

The line above the table is `<!-- figures: FILE... -->`, the line below it `<!-- end of figures -->`.
"""

import re
import sys
from pathlib import Path

from design_figures import judged, table
from recorded import read_results

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
_PLACE = re.compile(r"(<!-- figures: (.+?) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def with_figures(text: str) -> str:
    """The text with its table generated from the results."""
    place = _PLACE.search(text)
    if place is None:
        sys.exit(f"{README.name} has no place for figures")
    figures = judged(read_results(ROOT / name for name in place[2].split()))
    return text[: place.start()] + place[1] + "\n" + table(figures) + place[3] + text[place.end() :]


def main(arguments: list[str]) -> int:
    text = README.read_text()
    wanted = with_figures(text)
    if wanted == text:
        return 0
    if "--check" in arguments:
        print("README.md: its figures are not those of the results: run bench/readme_figures.py")
        return 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
