// Mark the formulas in a line that are wider than the text, so that wide.css lets them scroll.
function markWide() {
  for (const formula of document.querySelectorAll("span.math")) {
    formula.classList.remove("wide");
    const line = formula.closest("p, li, dd, dt, td, th, figcaption") ?? formula.parentElement;
    const cell = formula.closest("td, th"); // tables scroll by themselves
    formula.classList.toggle("wide", !cell && formula.offsetWidth > line.clientWidth);
  }
}

window.addEventListener("load", () => window.MathJax?.startup?.promise?.then(markWide));
window.addEventListener("resize", markWide);
