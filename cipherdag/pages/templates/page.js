"use strict";
// The page is complete without this script; it adds sorting, filtering, folding and saving.
const all = (query, root = document) => [...root.querySelectorAll(query)];

const saveFile = (name, content, type) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
};

(() => {
  all(".controls, .folds").forEach((part) => { part.hidden = false; });
  all("template[data-file]").forEach((file) => {
    const button = document.querySelector(`button[data-save="${file.dataset.file}"]`);
    const save = () => saveFile(file.dataset.file, file.content.textContent, "text/plain;charset=utf-8");
    button.addEventListener("click", save);
  });

  const filtered = (filter) => {
    const table = document.getElementById(filter.dataset.table);
    const said = filter.closest(".controls").querySelector(".filter-count");
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      const lines = all("tbody tr", table);
      lines.forEach((line) => {
        const names = all(".name", line).map((cell) => cell.textContent.toLowerCase());
        line.hidden = wanted !== "" && !names.some((name) => name.includes(wanted));
      });
      const left = lines.filter((line) => !line.hidden).length;
      said.textContent = wanted ? `${left} of ${lines.length}` : "";
    });
  };
  all("input.filter").forEach(filtered);

  const key = (line, column) => {
    const cell = line.children[column];
    const number = cell.querySelector("data");
    const text = number ? number.value : cell.textContent.trim();
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  const sortable = (own) => all("thead th", own).forEach((head, column) => {
    if (head.querySelector(".hidden")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      all("th[aria-sort]", own).forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = own.tBodies[0];
      const lines = [...body.rows].sort((a, b) => order(key(a, column), key(b, column)));
      body.replaceChildren(...(down ? lines.reverse() : lines));
    });
  });

  // on a narrow screen a row is a card; roles keep it a table for a screen reader
  const FEWEST = 3;
  const MOST = 10;
  const cards = (table) => {
    const heads = all("thead th", table).map((head) => head.textContent.trim());
    const many = heads.length > MOST && !table.classList.contains("records");
    if (heads.length < FEWEST || many) return;
    table.classList.add("cards");
    table.setAttribute("role", "table");
    all("thead, tbody", table).forEach((part) => part.setAttribute("role", "rowgroup"));
    all("tr", table).forEach((line) => line.setAttribute("role", "row"));
    all("thead th", table).forEach((head) => head.setAttribute("role", "columnheader"));
    all("tbody tr", table).forEach((line) => [...line.children].forEach((cell, column) => {
      cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
      cell.dataset.label = heads[column];
      cell.classList.toggle("none", cell.textContent.trim() === "");
    }));
  };
  all("table").forEach(cards);
  all("table.sortable").forEach(sortable);

  all("[data-fold]").forEach((button) => button.addEventListener("click", () => {
    all("details.fold").forEach((part) => { part.open = button.dataset.fold === "open"; });
  }));
  if (window.innerWidth < 700) all(".site details").slice(1).forEach((part) => { part.open = false; });
  const unfold = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    const own = target.querySelector(":scope > details.fold");
    if (own) own.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);
  unfold();

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
})();
