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

// A click on a figure shows it larger; a click or Escape closes it. On phones it scrolls.
function enlargeFigures() {
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.addEventListener("click", () => dialog.close());
  // Sphinx's own listener prevents what browsers do on Escape.
  dialog.addEventListener("keydown", (event) => event.key === "Escape" && dialog.close());
  document.body.append(dialog);
  for (const image of document.querySelectorAll("article img:not(a img, .sd-card img)")) {
    const show = () => {
      const larger = new Image();
      larger.src = image.src;
      larger.alt = image.alt;
      dialog.replaceChildren(larger);
      dialog.showModal();
    };
    image.classList.add("enlarges");
    image.tabIndex = 0;
    image.setAttribute("role", "button");
    image.addEventListener("click", show);
    image.addEventListener("keydown", (event) => event.key === "Enter" && show());
  }
}

window.addEventListener("DOMContentLoaded", enlargeFigures);
