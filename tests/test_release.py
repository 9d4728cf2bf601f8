"""What guards a release: tag, version and architectures agree; actions are pinned; metadata is complete."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import convt3d
from convt3d._library import BuildInfo

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
sys.path.insert(0, str(ROOT / "scripts"))
import check_release  # noqa: E402  # scripts/check_release.py

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90a", "sm_100", "sm_120", "compute_90")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Sources of version 1.2.3, ready for its release."""
    (tmp_path / "convt3d").mkdir()
    (tmp_path / "convt3d" / "_version.py").write_text('"""The version."""\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.3] - 2027-01-31\n\n## [1.2.2] - 2026-12-31\n")
    return tmp_path


def test_tag_that_agrees(sources: Path) -> None:
    assert list(check_release.differences_of_tag(sources, "v1.2.3")) == []


@pytest.mark.parametrize("tag", ["v1.2.4", "1.2.3", "v1.2.3rc1"])
def test_tag_of_another_version(sources: Path, tag: str) -> None:
    (difference,) = check_release.differences_of_tag(sources, tag)
    assert difference == f"the tag must be v1.2.3, as convt3d/_version.py says, got {tag}"


@pytest.mark.parametrize("heading", ["## [1.2.3] - unreleased", "## [1.2.2] - 2026-12-31"])
def test_changelog_of_another_version(sources: Path, heading: str) -> None:
    (sources / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    (difference,) = check_release.differences_of_tag(sources, "v1.2.3")
    assert heading in difference


def _built(version: str = "1.2.3", architectures: tuple[str, ...] = ARCHITECTURES) -> BuildInfo:
    return BuildInfo(version=version, torch="2.11.0", cuda="12.9", architectures=architectures)


def test_installation(sources: Path) -> None:
    assert list(check_release.differences_of_installation(sources, _built())) == []
    assert list(check_release.differences_of_installation(sources, _built(), "12.9")) == []
    (difference,) = check_release.differences_of_installation(sources, _built(version="1.2.2"))
    assert "must be 1.2.3, got 1.2.2" in difference
    (difference,) = check_release.differences_of_installation(sources, _built(architectures=ARCHITECTURES[1:]))
    assert "must have kernels for sm_75, too" in difference
    (difference,) = check_release.differences_of_installation(sources, _built(architectures=()))
    assert difference.endswith("got none")
    (difference,) = check_release.differences_of_installation(sources, _built(), "13.0")
    assert difference == "the library must be built with CUDA 13.0, got 12.9"


def test_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_release.main(["--tag", f"v{convt3d.__version__}.1"]) == 1
    assert "the tag must be" in capsys.readouterr().err
    info = convt3d._library.build_info()
    assert check_release.main(["--installed"]) == (not set(ARCHITECTURES) <= set(info.architectures))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(path: Path) -> None:
    uses = re.findall(r"^\s*(?:- )?uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def _description(readme: str, url: str) -> str:
    """setup.py's function; to import the file would be to build."""
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    (function,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == "description"]
    namespace: dict[str, Any] = {"re": re}
    exec(compile(ast.Module([function], []), "setup.py", "exec"), namespace)
    described: str = namespace["description"](readme, url, "1.2.3")
    return described


def test_links_of_the_description() -> None:
    readme = "![a picture](docs/a.svg) [a page](docs/b.md#part) [outside](https://pytorch.org) [here](#build) t[0](x)"
    assert _description(readme, "https://example.org/convt3d/") == (
        "![a picture](https://example.org/convt3d/raw/v1.2.3/docs/a.svg) "
        "[a page](https://example.org/convt3d/blob/v1.2.3/docs/b.md#part) "
        "[outside](https://pytorch.org) [here](#build) t[0](https://example.org/convt3d/blob/v1.2.3/x)"
    )
    assert _description(readme, "") == " a page [outside](https://pytorch.org) [here](#build) t0"


def test_links_of_the_readme_lead_to_files() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(
        r"https://example\.org/(?:raw|blob)/v1\.2\.3/([^)#]+)", _description(readme, "https://example.org")
    )
    assert len(links) > 5
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_citation_is_of_this_version() -> None:
    assert f"\nversion: {convt3d.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_every_issue_form_asks_for_the_environment() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) >= 2
    assert all("python -m convt3d.collect_env" in form.read_text(encoding="utf-8") for form in forms)
