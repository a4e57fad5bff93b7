// The drawing of a graph: evidence of what is pointed at, groups that open in place, searching,
// filtering by strength or p-value, zoom, and saving as a picture.
(() => {
  const canvas = document.getElementById("canvas");
  if (!canvas || !canvas.querySelector("svg")) return;
  const card = document.getElementById("card");
  const rows = new Map(all("#edge-table tr[data-edge]").map((line) => [line.dataset.edge, line]));
  const overview = canvas.querySelector("svg");
  const ends = (edge) => JSON.parse(edge.dataset.ends);

  const light = (numbers, nodes) => {
    const some = numbers !== null;
    all(".canvas").forEach((own) => own.classList.toggle("dim", some));
    all("[data-edge]").forEach((e) => e.classList.toggle("on", some && numbers.has(e.dataset.edge)));
    all("g.cd-edge").forEach((e) => e.classList.toggle("on", some && ends(e).some((n) => nodes.has(n))));
    all("[data-node]").forEach((e) => e.classList.toggle("on", some && nodes.has(e.dataset.node)));
  };

  const showEdge = (edge) => {
    light(new Set([edge.dataset.edge]), new Set(ends(edge)));
    const found = rows.get(edge.dataset.edge);
    if (!card || !found) return;
    const title = document.createElement("p");
    title.className = "card-edge";
    title.textContent = all(".name, .mark", found).map((cell) => cell.textContent).join(" ");
    const more = [found.querySelector(".verdict"), found.querySelector(".facts-cell ul")];
    card.replaceChildren(title, ...more.filter(Boolean).map((part) => part.cloneNode(true)));
  };

  const showNode = (box) => {
    const name = box.dataset.node;
    const near = all("[data-ends]", box.closest("svg")).filter((e) => ends(e).includes(name));
    light(new Set(near.map((e) => e.dataset.edge)), new Set([name, ...near.flatMap(ends)]));
    all("g.cd-edge").forEach((e) => e.classList.toggle("on", near.includes(e)));
  };

  const queries = new Map(all("#query-table tbody tr").map((line) => {
    const [cause, outcome, said] = [...line.cells].map((cell) => cell.textContent);
    return [JSON.stringify([cause, outcome]), said];
  }));
  let cause = null;
  const ask = (name) => {
    const said = cause === null ? undefined : queries.get(JSON.stringify([cause, name]));
    const line = document.createElement("p");
    line.textContent = said === undefined ? `The effect of ${name} on the variable that you click next` : said;
    cause = said === undefined ? name : null;
    card.replaceChildren(line);
  };

  // narrow screens get letters of at least this scale, and scroll
  const READABLE = () => (window.innerWidth < 700 ? 1.06 : 0.95);
  let scale = 1;
  const size = (picture) => {
    const natural = picture.viewBox.baseVal;
    picture.style.maxWidth = "none";
    picture.style.maxHeight = "none";
    picture.style.width = `${natural.width * scale}px`;
    picture.style.height = `${natural.height * scale}px`;
  };
  const fitting = (picture) => {
    const { width, height } = picture.viewBox.baseVal;
    return Math.min((canvas.clientWidth - 24) / width, 650 / height, 2.3);
  };
  const centre = () => { canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2; };
  const zoom = (way) => {
    const picture = canvas.querySelector("svg");
    if (way === "fit") scale = fitting(picture);
    else scale = Math.min(8, Math.max(0.1, scale * (way === "in" ? 1.3 : 1 / 1.3)));
    size(picture);
  };
  const begin = () => {
    const picture = canvas.querySelector("svg");
    scale = Math.max(fitting(picture), READABLE());
    size(picture);
    centre();
  };

  const groups = new Map(all("template[data-group]").map((own) => [own.dataset.group, own.content]));
  const shut = document.getElementById("shut");
  const show = (picture) => {
    light(null);
    canvas.replaceChildren(picture);
    begin();
    hear(canvas);
    filter();
  };
  const open = (name) => {
    const content = groups.get(name);
    if (!content) return;
    const picture = content.querySelector("svg").cloneNode(true);
    const inside = new Set(JSON.parse(members.get(name)));
    all("[data-node]", picture).forEach((box) => box.classList.toggle("cd-inside", inside.has(box.dataset.node)));
    shut.hidden = false;
    show(picture);
  };
  const members = new Map(all("[data-members]", overview).map((box) => [box.dataset.node, box.dataset.members]));
  const close = () => {
    if (shut.hidden) return;
    shut.hidden = true;
    show(overview);
  };
  shut.addEventListener("click", () => { close(); canvas.focus(); });
  canvas.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });

  const heard = new WeakSet();
  const hear = (root) => {
    all("a.cd-edge", root).filter((edge) => !heard.has(edge)).forEach((edge) => {
      heard.add(edge);
      ["mouseenter", "focus"].forEach((name) => edge.addEventListener(name, () => showEdge(edge)));
      ["mouseleave", "blur"].forEach((name) => edge.addEventListener(name, () => light(null)));
    });
    all("[data-node]", root).filter((box) => !heard.has(box)).forEach((box) => {
      heard.add(box);
      box.addEventListener("mouseenter", () => showNode(box));
      box.addEventListener("mouseleave", () => light(null));
      if (queries.size && !box.dataset.members) box.addEventListener("click", () => ask(box.dataset.node));
      if (!groups.has(box.dataset.node)) return;
      box.setAttribute("tabindex", "0");
      box.setAttribute("role", "button");
      box.setAttribute("aria-label", `Open the group ${box.dataset.node}`);
      box.addEventListener("click", () => open(box.dataset.node));
      box.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open(box.dataset.node);
        canvas.focus();
      });
    });
  };
  rows.forEach((line, number) => {
    line.addEventListener("mouseenter", () => {
      const edge = all("a.cd-edge").find((own) => own.dataset.edge === number);
      if (edge) light(new Set([number]), new Set(ends(edge)));
    });
    line.addEventListener("mouseleave", () => light(null));
  });

  const find = document.getElementById("find");
  const found = document.getElementById("found");
  const boxesOf = (wanted) => {
    const holds = (name) => name.toLowerCase().includes(wanted);
    const boxes = all("[data-node]", canvas);
    const exact = boxes.filter((box) => box.dataset.node.toLowerCase() === wanted);
    if (exact.length) return exact;
    return boxes.filter((box) => (box.dataset.members ? JSON.parse(box.dataset.members).some(holds) : holds(box.dataset.node)));
  };
  const search = (enter) => {
    const wanted = find.value.trim().toLowerCase();
    all(".found").forEach((box) => box.classList.remove("found"));
    found.textContent = "";
    if (!wanted) return;
    let boxes = boxesOf(wanted);
    if (enter && boxes.length && boxes[0].dataset.members) {
      open(boxes[0].dataset.node);
      boxes = boxesOf(wanted);
    }
    boxes.forEach((box) => box.classList.add("found"));
    const within = boxes.length === 1 && boxes[0].dataset.members;
    found.textContent = within ? `in the group ${boxes[0].dataset.node}: Enter opens it` : `${boxes.length} found`;
    if (!boxes.length) return;
    const [own, frame] = [boxes[0].getBoundingClientRect(), canvas.getBoundingClientRect()];
    canvas.scrollLeft += own.left + own.width / 2 - frame.left - frame.width / 2;
    canvas.scrollTop += own.top + own.height / 2 - frame.top - frame.height / 2;
  };
  find.addEventListener("input", () => search(false));
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") search(true); });

  const least = document.getElementById("least");
  const sure = (line) => Number(line.dataset.sure ?? "-Infinity");
  const known = new Map([...rows.values()].map((line) => [sure(line), line.dataset.shown]));
  const steps = [...known.keys()].filter(Number.isFinite).sort((a, b) => a - b);
  const filter = () => {
    if (!least) return;
    const step = Number(least.value);
    const bound = step ? steps[step] : -Infinity;
    const off = new Set([...rows].filter(([, line]) => sure(line) < bound).map(([number]) => number));
    all("a.cd-edge").forEach((edge) => edge.classList.toggle("off", off.has(edge.dataset.edge)));
    rows.forEach((line, number) => line.classList.toggle("off", off.has(number)));
    const said = step ? `${least.dataset.word} ${known.get(bound)}: ${rows.size - off.size} of ${rows.size}` : "all";
    document.getElementById("least-said").textContent = said;
    least.setAttribute("aria-valuetext", said);
  };
  if (least && steps.length > 1) {
    least.max = steps.length - 1;
    least.addEventListener("input", filter);
  } else if (least) least.closest("label").hidden = true;

  // the picture alone, in the colours of paper, with nothing that only a page needs
  const alone = () => {
    const picture = canvas.querySelector("svg").cloneNode(true);
    const { width, height } = picture.viewBox.baseVal;
    all(".off, .cd-hit", picture).forEach((part) => part.remove());
    all("a", picture).forEach((link) => {
      const group = document.createElementNS(picture.namespaceURI, "g");
      group.setAttribute("class", link.getAttribute("class"));
      group.append(...link.childNodes);
      link.replaceWith(group);
    });
    const rules = [...document.styleSheets[0].cssRules].map((rule) => rule.cssText);
    const style = document.createElementNS(picture.namespaceURI, "style");
    style.textContent = rules.filter((rule) => rule.startsWith(".cd-picture") && !rule.includes("var(--ink)")).join("\n");
    picture.prepend(style);
    picture.removeAttribute("style");
    picture.setAttribute("width", width);
    picture.setAttribute("height", height);
    return { text: new XMLSerializer().serializeToString(picture), width, height };
  };
  const MOST_PIXELS = 8000;
  const saves = {
    "graph.svg": () => saveFile("graph.svg", alone().text, "image/svg+xml"),
    "graph.png": () => {
      const { text, width, height } = alone();
      const times = Math.min(2.5, MOST_PIXELS / Math.max(width, height));
      const image = new Image();
      image.addEventListener("load", () => {
        const paper = document.createElement("canvas");
        [paper.width, paper.height] = [width * times, height * times];
        const pen = paper.getContext("2d");
        pen.fillStyle = "#fff";
        pen.fillRect(0, 0, paper.width, paper.height);
        pen.drawImage(image, 0, 0, paper.width, paper.height);
        paper.toBlob((content) => saveFile("graph.png", content));
      });
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    },
  };
  Object.entries(saves).forEach(([name, save]) => {
    document.querySelector(`button[data-save="${name}"]`)?.addEventListener("click", save);
  });

  document.querySelector(".tools").hidden = false;
  all("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom(button.dataset.zoom)));
  hear(document);
  begin();
  filter();
})();
