"use strict";
// The page is complete without this script; it adds hovering, zooming, filtering and sorting.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const card = document.getElementById("card");
  const table = document.getElementById("edge-table");
  const row = (number) => document.getElementById(`edge-${number}`);

  const light = (numbers, nodes) => {
    const some = numbers !== null;
    all(".canvas").forEach((canvas) => canvas.classList.toggle("dim", some));
    all("[data-edge]").forEach((e) => e.classList.toggle("on", some && numbers.has(e.dataset.edge)));
    all("g.cd-edge").forEach((e) => e.classList.toggle("on", some && ends(e).some((n) => nodes.has(n))));
    all("[data-node]").forEach((e) => e.classList.toggle("on", some && nodes.has(e.dataset.node)));
  };
  const ends = (edge) => JSON.parse(edge.dataset.ends);

  const showEdge = (edge) => {
    light(new Set([edge.dataset.edge]), new Set(ends(edge)));
    const found = row(edge.dataset.edge);
    if (!card || !found) return;
    const title = document.createElement("p");
    title.className = "card-edge";
    title.textContent = all(".name, .mark", found).map((cell) => cell.textContent).join(" ");
    const parts = [title];
    const verdict = found.querySelector(".verdict");
    if (verdict) parts.push(verdict.cloneNode(true));
    const facts = found.querySelector(".facts-cell ul");
    if (facts) parts.push(facts.cloneNode(true));
    card.replaceChildren(...parts);
  };
  all("a.cd-edge").forEach((edge) => {
    ["mouseenter", "focus"].forEach((name) => edge.addEventListener(name, () => showEdge(edge)));
    ["mouseleave", "blur"].forEach((name) => edge.addEventListener(name, () => light(null)));
  });

  all("[data-node]").forEach((box) => {
    const name = box.dataset.node;
    box.addEventListener("mouseenter", () => {
      const near = all("[data-ends]", box.closest("svg")).filter((e) => ends(e).includes(name));
      light(new Set(near.map((e) => e.dataset.edge)), new Set([name, ...near.flatMap(ends)]));
      all("g.cd-edge").forEach((e) => e.classList.toggle("on", near.includes(e)));
    });
    box.addEventListener("mouseleave", () => light(null));
  });
  if (table) {
    all("tr[data-edge]", table).forEach((line) => {
      line.addEventListener("mouseenter", () => {
        const edge = all("a.cd-edge").find((e) => e.dataset.edge === line.dataset.edge);
        if (edge) light(new Set([line.dataset.edge]), new Set(ends(edge)));
      });
      line.addEventListener("mouseleave", () => light(null));
    });
  }

  const canvas = document.querySelector(".canvas");
  const tools = document.querySelector(".tools");
  if (canvas && tools) {
    const picture = canvas.querySelector("svg");
    const natural = Number(picture.getAttribute("width"));
    let scale = 1;
    const zoom = (way) => {
      if (way === "fit") {
        picture.style.width = "";
        picture.style.maxWidth = "";
        picture.style.maxHeight = "";
        scale = picture.getBoundingClientRect().width / natural;
        return;
      }
      scale = Math.min(8, Math.max(0.1, scale * (way === "in" ? 1.3 : 1 / 1.3)));
      picture.style.maxWidth = "none";
      picture.style.maxHeight = "none";
      picture.style.width = `${natural * scale}px`;
    };
    tools.hidden = false;
    zoom("fit");
    all("[data-zoom]", tools).forEach((b) => b.addEventListener("click", () => zoom(b.dataset.zoom)));
  }

  const filter = document.getElementById("filter");
  if (filter && table) {
    filter.closest(".filter").hidden = false;
    filter.addEventListener("input", () => {
      const wanted = filter.value.trim().toLowerCase();
      const lines = all("tbody tr", table);
      lines.forEach((line) => {
        const names = all(".name", line).map((cell) => cell.textContent.toLowerCase());
        line.hidden = wanted !== "" && !names.some((name) => name.includes(wanted));
      });
      const left = lines.filter((line) => !line.hidden).length;
      document.getElementById("filter-count").textContent = wanted ? `${left} of ${lines.length}` : "";
    });
  }

  const key = (line, column) => {
    const cell = line.children[column];
    const number = cell.querySelector("data");
    const text = number ? number.value : cell.textContent.trim();
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  all("table.sortable").forEach((own) => {
    all("thead th", own).forEach((head, column) => {
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
  });

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((part) => { part.open = false; }));
})();
