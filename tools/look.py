"""Look at the built site in a browser: `make docs-look`, or python tools/look.py [SITE [PICTURES]].

Every page is opened at the widths of a desktop and of a phone, the pages of LOOKED_AT in light and
in dark. Screenshots of LOOKED_AT are for people. The script fails if a page is wider than its
window, or a formula is not set. It also fails if a page asks for a missing file, or for anything in
the network. The search has to find each page of SEARCHES.

Playwright drives the browser: its own Chromium, or the browser that CHROMIUM names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, Request, TimeoutError, sync_playwright

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
"""Width and height of the windows, in points."""

LOOKED_AT = (
    "index",
    "gallery/index",
    "gallery/condition_numbers",
    "api/index",
    "api/estimators",
    "api/generated/rescntk",
    "api/generated/rescntk.Network",
    "api/generated/rescntk.theory.spectrum",
    "guide/index",
    "guide/faq",
    "guide/classification",
    "guide/explanation",
    "guide/speed",
    "theory/recursion",
    "theory/paper_map",
    "project/results/cpu",
)
"""Pages with screenshots: those of them that exist."""

SEARCHES = {
    "condition number": "conditioning",
    "unequal length": "faq",
    "missing values": "signals",
    "macOS": "faq",
    "troubleshooting": "faq",
    "CSV": "faq",
    "theorem 6.2": "paper_map",
    "figure 3": "paper_map",
    "neural-tangents": "neural_tangents",
    "bias": "biases",
    "calibration": "classification",
    "learning curve": "learning_curves",
    "ensemble": "gaussian_processes",
    "novelty": "classification",
    "anomaly detection": "classification",
    "imbalanced": "classification",
    "groups": "classification",
    "error bars": "regression",
    "confidence interval": "regression",
    "which channel": "explanation",
    "multivariate": "signals",
    "GPU": "install",
    "memory": "faq",
    "cite": "index",
    "outlier": "classification",
    "threshold": "classification",
    "class weight": "classification",
    "sampling rate": "signals",
    "irregular": "signals",
    "datetime": "signals",
    "polars": "signals",
    "pickle": "signals",
    "deploy": "signals",
    "cross-validation": "scikit_learn",
    "PLS": "spectra",
    "wavelength": "spectra",
    "Savitzky": "spectra",
    "preprocessing": "spectra",
    "saturated": "explanation",
    "evidence": "gaussian_processes",
    "GPyTorch": "other_libraries",
    "Falkon": "other_libraries",
}
"""What the search must find, and the page that must be among the first three results."""

FORMULAS = """() => ({
    width: Math.max(
        document.documentElement.scrollWidth - window.innerWidth,
        document.querySelector(".content").scrollWidth
            - document.querySelector(".content").clientWidth),
    set: document.querySelectorAll("mjx-container").length,
    written: document.querySelectorAll(".math").length,
    wrong: document.querySelectorAll("mjx-merror, mjx-container [style*='color: red']").length,
})"""
"""Excess width in points; formulas that MathJax has set; formulas of the page; mistakes in them.

MathJax sets a command that it does not know in red."""


def look(page: Page, url: str) -> Iterator[str]:
    """Yield what is wrong with a page in the current window."""
    page.goto(url)
    try:
        page.wait_for_function(
            "() => !document.querySelector('.math') || window.MathJax?.startup?.promise"
        )
        page.evaluate("() => window.MathJax?.startup?.promise?.then(() => markWide?.())")
    except TimeoutError:
        yield "MathJax does not start"
    measured = page.evaluate(FORMULAS)
    if measured["width"] > 0:
        yield f"{measured['width']} points wider than the window"
    if measured["set"] < measured["written"] or measured["wrong"]:
        yield f"formulas: {measured['set']} of {measured['written']} set, {measured['wrong']} wrong"


def search(page: Page, site: str) -> Iterator[str]:
    """Yield the searches without a result."""
    for words, wanted in SEARCHES.items():
        page.goto(f"{site}/search.html?q={words.replace(' ', '+')}")
        page.wait_for_selector("#search-results .search-summary", state="attached")
        page.wait_for_timeout(1000)
        hits = page.locator("#search-results ul.search > li > a:first-child")
        links = hits.evaluate_all("links => links.slice(0, 3).map(link => link.href)")
        print(f'search "{words}": {hits.count()} results, first {hits.all_inner_texts()[:3]}')
        if not any(f"/{wanted}.html" in link for link in links):
            yield f'the search for "{words}" does not lead to {wanted}'


def addresses_that_are_missing(page: Page) -> list[str]:
    """Return a list to which a page adds requests that failed, and those to other places."""
    missing: list[str] = []

    def failed(request: Request) -> None:
        missing.append(request.url)

    def asked(request: Request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            missing.append(request.url)

    page.on("requestfailed", failed)
    page.on("request", asked)
    return missing


def main() -> None:
    """Open all pages, print what is wrong, and exit with 1 if anything is."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "build/site").resolve()
    pictures = Path(sys.argv[2] if len(sys.argv) > 2 else "build/look").resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    hidden = {"genindex", "py-modindex", "search"}
    names = sorted(path.relative_to(site).as_posix()[:-5] for path in site.rglob("*.html"))
    names = [name for name in names if name not in hidden and not name.startswith("_")]
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM") or None)
        for window, (width, height) in WIDTHS.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                page = context.new_page()
                missing = addresses_that_are_missing(page)
                for name in names if scheme == "light" else LOOKED_AT:
                    if name not in names:
                        continue
                    problems = list(look(page, f"{site.as_uri()}/{name}.html"))
                    problems += [f"asks for {url}" for url in missing]
                    missing.clear()
                    wrong += [f"{name}, {window}, {scheme}: {what}" for what in problems]
                    if name in LOOKED_AT:
                        stem = name.replace("/", "-")
                        path = pictures / f"{stem}.{window}.{scheme}.png"
                        page.screenshot(path=path, full_page=False)
                if window == "desktop" and scheme == "light":
                    wrong += list(search(page, site.as_uri()))
                context.close()
        browser.close()
    print(f"{len(names)} pages; screenshots in {pictures}")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
