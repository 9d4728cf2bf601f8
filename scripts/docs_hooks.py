"""For mkdocs: the pages that lie outside of docs/, and links to them that work in the repository and on the site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

OUTSIDE = ("CHANGELOG.md", "CONTRIBUTING.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the repository's root, as if they lay in docs/."""
    root = Path(config.config_file_path).parent
    for name in OUTSIDE:
        text = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links out of docs/ to the pages that `on_files` added; any other stays and fails the build."""
    return _lists_apart(re.sub(rf"\]\(\.\./({'|'.join(map(re.escape, OUTSIDE))})", r"](\1", markdown))


def _lists_apart(markdown: str) -> str:
    """A blank line before each list, which Python-Markdown needs to see it and other renderers do not."""
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        fenced ^= line.startswith("```")
        before = lines[-1] if lines else ""
        if not fenced and _is_item(line) and before.strip() and not before.startswith(" ") and not _is_item(before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def _is_item(line: str) -> bool:
    return re.match(r"- |\d+\. ", line) is not None
