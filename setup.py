"""What pyproject.toml cannot say: the compiled loops, and the package's description.

The loops (rescntk/engines/cpu) are optional and of no Python version. Without a compiler the
package installs without them and keeps the reason; RESCNTK_NATIVE=require makes this an error.

The description is the README, with links that lead out of the package. The repository's address
stands in pyproject.toml under `project.urls`; until it does, links to files are plain words.
"""

import os
import re
import runpy
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
LOOPS = Path("rescntk/engines/cpu")
BUILD = runpy.run_path(str(ROOT / LOOPS / "build.py"))
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)\s]+)\)")


def description(text: str, repository: str | None) -> str:
    """Return the README with absolute links to files, or without such links and pictures."""

    def changed(link: re.Match[str]) -> str:
        picture, words, path = link.groups()
        if repository is None:
            return "" if picture else words
        return f"{picture}[{words}]({repository}/{'raw' if picture else 'blob'}/main/{path})"

    return re.sub(r"<!--.*?-->\n", "", LINK.sub(changed, text), flags=re.S)


def platform(tag: str, machine: str) -> str:
    """Return a wheel's platform: its libraries' one processor, where Python is for two."""
    return tag.replace("universal2", {"aarch64": "arm64"}.get(machine, machine))


class BuildLoops(build_ext):
    """Compile the loops; without a compiler leave the reason behind."""

    def run(self) -> None:
        folder = ROOT / LOOPS if self.inplace else Path(self.build_lib) / LOOPS
        folder.mkdir(parents=True, exist_ok=True)
        reason = folder / "missing.txt"
        try:
            self.outputs = list(map(str, BUILD["compiled"](folder)))
            reason.unlink(missing_ok=True)
        except OSError as error:
            if os.environ.get("RESCNTK_NATIVE") == "require":
                raise
            print(f"rescntk: no compiled loops: {error}", file=sys.stderr)
            for library in folder.glob("loops-*.so"):
                library.unlink()
            reason.write_text(f"{error}\n", "utf-8")
            self.outputs = [str(reason)]
            self.distribution.ext_modules = self.extensions = []  # so that the wheel is a pure one

    def get_outputs(self) -> list[str]:
        return self.outputs

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class Wheel(bdist_wheel):
    """A wheel for all versions of Python; of one platform if it has libraries."""

    def run(self) -> None:
        self.run_command("build_ext")  # what it leaves says which kind of wheel this is
        self.root_is_pure = not self.distribution.has_ext_modules()
        super().run()

    def get_tag(self) -> tuple[str, str, str]:
        if not self.distribution.has_ext_modules():
            return "py3", "none", "any"
        return "py3", "none", platform(super().get_tag()[2], BUILD["machine"]())


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project.get("urls", {}).get("Repository")
    setup(
        ext_modules=[Extension("rescntk.engines.cpu.loops", [])],  # stands for the libraries
        cmdclass={"build_ext": BuildLoops, "bdist_wheel": Wheel},
        long_description=description((ROOT / "README.md").read_text("utf-8"), repository),
        long_description_content_type="text/markdown",
    )
