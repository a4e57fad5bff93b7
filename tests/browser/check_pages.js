// Opens every page in headless Chromium, light and dark, wide and narrow: no console message, no
// request, no finding of axe-core, no sideways scrolling, nothing clipped or too small to read, the
// keyboard reaches the evidence, and search, filter, folding, groups and saving do what they say. Then the live view of a real run, from its first round to its end.
// Usage: node check_pages.js CHROMIUM FOLDER PYTHON SCREENSHOTS SCRIPT...; SCREENSHOTS may be empty,
// a SCRIPT prints the address of a live view and ends with its run.
import { spawn } from "node:child_process";
import { readFileSync, readdirSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [browserPath, folder, python, shots, ...lives] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const faults = [];
const SMALLEST_LETTER_PX = 10;
const VIEWS = [
  { name: "wide", colorScheme: "light", viewport: { width: 1360, height: 1000 } },
  { name: "dark", colorScheme: "dark", viewport: { width: 1360, height: 1000 } },
  { name: "narrow", colorScheme: "light", viewport: { width: 390, height: 844 } },
];

// findings in dark or narrow views do not differ between pages of one kind
const JUDGED = { wide: /./, dark: /^(fedpc|consensus|compared|rfcd|fedcd|panels|ledger)\./, narrow: /^(fedpc|consensus|compared|ledger)\./ };
const PATIENCE_MS = 120000;
const KEPT = {
  "fedpc.html (wide)": "report",
  "fedpc.html (dark)": "report-dark",
  "fedcmfs.html (wide)": "features",
  "ledger.html (wide)": "register",
};

const KEPT_PANEL = {
  "rfcd.html (wide)": ["#panel-1", "regret"],
  "fedcd.html (wide)": ["#panel-2", "beliefs"],
};

const check = (page, condition, message) => {
  if (!condition) faults.push(`${page}: ${message}`);
};

const opened = async (browser, view, file, where) => {
  const page = await browser.newPage({ ...view, reducedMotion: "reduce" });
  const address = file.startsWith("http:") ? file : pathToFileURL(file).href;
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("console", (message) => faults.push(`${where}: console: ${message.text()}`));
  page.on("pageerror", (error) => faults.push(`${where}: error: ${error.message}`));
  page.on("dialog", async (dialog) => {
    faults.push(`${where}: a dialog opened: ${dialog.message()}`);
    await dialog.dismiss();
  });
  page.on("request", (request) => {
    const url = request.url().split("#")[0];
    const own = [address, `${address}part`].includes(url) || /^(data|blob):/.test(url);
    check(where, own, `asks for ${request.url()}`);
  });
  await page.goto(address);
  return page;
};

const accessible = async (page, where) => {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document));
  for (const found of violations) {
    const nodes = found.nodes.slice(0, 2).map((node) => `${node.html.slice(0, 120)} (${node.any[0]?.message ?? ""})`);
    faults.push(`${where}: axe ${found.impact} ${found.id}: ${nodes.join(" | ")}`);
  }
};

const reachable = async (page, where) => {
  const edges = page.locator("a.cd-edge");
  if ((await edges.count()) === 0) return;
  const card = page.locator("#card");
  const before = await card.innerText();
  await edges.first().evaluate((edge) => edge.closest("details")?.setAttribute("open", ""));
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press("Tab");
    const name = await page.evaluate(() => document.activeElement.getAttribute("class") ?? "");
    if (name.includes("cd-edge")) break;
  }
  check(where, (await card.innerText()) !== before, "Tab does not bring evidence to the card");
  await page.keyboard.press("Enter");
  const target = await page.evaluate(() => document.querySelector("tr:target")?.id ?? "");
  check(where, target.startsWith("edge-"), "Enter on an edge does not lead to its row");
};

const usable = async (page, where) => {
  const filter = page.locator("#filter");
  if ((await filter.count()) === 0) return;
  const rows = page.locator("#edge-table tbody tr");
  const name = await rows.first().locator(".name").first().innerText();
  await filter.fill(name);
  const visible = await page.locator("#edge-table tbody tr:visible").count();
  check(where, visible >= 1 && visible <= (await rows.count()), "the filter hides its own match");
  await filter.fill("no variable is called like this");
  check(where, (await page.locator("#edge-table tbody tr:visible").count()) === 0, "the filter shows all");
  await filter.fill("");
  const heading = page.locator("#edge-table th button").nth(1);
  await heading.click();
  await heading.click();
  const names = await page.locator("#edge-table tbody tr td:nth-child(2)").allInnerTexts();
  const sorted = [...names].sort((a, b) => b.localeCompare(a));
  check(where, JSON.stringify(names) === JSON.stringify(sorted), "a column does not sort");
};

const readable = async (page, where) => {
  const small = await page.evaluate((least) => {
    const seen = [...document.querySelectorAll("#canvas text, .curves text, td, li, p")];
    const height = (part) => {
      const svg = part.ownerSVGElement;
      const scale = svg ? svg.getBoundingClientRect().height / svg.viewBox.baseVal.height : 1;
      return parseFloat(getComputedStyle(part).fontSize) * scale;
    };
    return seen.filter((part) => part.getClientRects().length && height(part) < least).map((part) => part.textContent.slice(0, 30));
  }, SMALLEST_LETTER_PX);
  check(where, small.length === 0, `letters too small: ${small.slice(0, 3).join(", ")}`);
  const clipped = await page.evaluate(() => [...document.querySelectorAll("table.cards td, table.cards th")]
    .filter((cell) => cell.getClientRects().length && cell.getBoundingClientRect().right > window.innerWidth + 1)
    .map((cell) => cell.textContent.slice(0, 30)));
  check(where, clipped.length === 0, `cells beyond the edge: ${clipped.slice(0, 3).join(", ")}`);
  // a cell whose words fill less than half of it is blank for the most part
  const blank = await page.evaluate(() => [...document.querySelectorAll("table.cards tbody :is(td, th)")].filter((cell) => {
    const words = document.createRange();
    words.selectNodeContents(cell);
    const height = cell.getBoundingClientRect().height;
    return cell.getClientRects().length && height > 60 && words.getBoundingClientRect().height < height / 2;
  }).map((cell) => cell.innerText.slice(0, 30)));
  check(where, blank.length === 0, `cells are mostly blank: ${blank.slice(0, 3).join(", ")}`);
};

const folds = async (page, where) => {
  if ((await page.locator("[data-fold]").count()) === 0) return;
  const open = () => page.locator("details.fold[open]").count();
  const whole = await page.locator("details.fold").count();
  await page.locator('[data-fold="close"]').click();
  check(where, (await open()) === 0, "sections do not collapse");
  await page.locator('nav a[href="#limits"]').click();
  await page.waitForFunction(() => document.querySelector("#limits details").open);
  await page.locator('[data-fold="open"]').click();
  check(where, (await open()) === whole, "sections do not expand");
};

const searched = async (page, where) => {
  const find = page.locator("#find");
  if ((await find.count()) === 0) return;
  const [name] = JSON.parse(await page.evaluate(() => {
    const group = document.querySelector("#canvas [data-members]");
    return group ? group.dataset.members : JSON.stringify([document.querySelector("#canvas [data-node]").dataset.node]);
  }));
  await find.fill(name);
  await find.press("Enter");
  const marked = await page.locator("#canvas .found").evaluateAll((boxes) => boxes.map((box) => box.dataset.node));
  check(where, marked.includes(name), "the search does not mark the variable that it looks for");
  const inside = await page.evaluate(() => {
    const [box, frame] = [document.querySelector(".found"), document.getElementById("canvas")].map((e) => e.getBoundingClientRect());
    return box.right > frame.left && box.left < frame.right && box.bottom > frame.top && box.top < frame.bottom;
  });
  check(where, inside, "the variable that was found is out of sight");
  await find.fill("");
  if (await page.locator("#shut").isVisible()) {
    check(where, (await page.locator("#canvas a.cd-edge").count()) > 0, "an opened group has no edge of its own");
    await page.locator("#shut").click();
    check(where, (await page.locator("#canvas [data-members]").count()) > 1, "a group does not close");
    await page.locator("#canvas [data-members]").first().focus();
    await page.keyboard.press("Enter");
    check(where, await page.locator("#shut").isVisible(), "Enter does not open a group");
    await page.keyboard.press("Escape");
    check(where, await page.locator("#shut").isHidden(), "Escape does not close a group");
  }
};

const thinned = async (page, where) => {
  const least = page.locator("#least");
  if ((await least.count()) === 0 || (await least.isHidden())) return;
  const rows = page.locator("#edge-table tbody tr:visible");
  const before = await rows.count();
  await least.fill(await least.getAttribute("max"));
  const after = await rows.count();
  check(where, after >= 1 && after < before, `the strongest of ${before} edges are ${after}`);
  const drawn = await page.locator("#canvas a.cd-edge:visible").count();
  check(where, drawn === 0 || drawn === after, `${drawn} lines for ${after} rows`);
  check(where, (await page.locator("#least-said").innerText()).includes(`${after} of ${before}`), "does not say how many");
  await least.fill("0");
};

const BEGINNINGS = { svg: "<svg", png: "\x89PNG", csv: "from,to,", graphml: "<?xml" };
const saved = async (page, where) => {
  for (const button of await page.locator("button[data-save]").all()) {
    const name = await button.getAttribute("data-save");
    const [file] = await Promise.all([page.waitForEvent("download"), button.click()]);
    const content = readFileSync(await file.path());
    const start = name.startsWith("features") ? "label,rank" : BEGINNINGS[name.split(".").pop()];
    check(where, content.subarray(0, 40).toString("latin1").startsWith(start), `${name} begins with ${content.subarray(0, 12)}`);
    check(where, file.suggestedFilename() === name, `is saved as ${file.suggestedFilename()}`);
    if (name === "graph.svg") check(where, !/<a |onclick|var\(--ink\)/.test(content), "the picture alone holds parts of the page");
  }
};

const browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox"] });
const files = readdirSync(folder).filter((name) => name.endsWith(".html")).sort();
if (shots) mkdirSync(shots, { recursive: true });
const look = async (file, view) => {
  const where = `${file} (${view.name})`;
  const page = await opened(browser, view, resolve(folder, file), where);
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  check(where, width <= view.viewport.width, `is ${width} pixels wide`);
  if (shots && KEPT[where]) {
    const edge = page.locator("a.cd-edge").nth(3);
    if (await edge.count()) await edge.focus();
    await page.screenshot({ path: `${shots}/${KEPT[where]}.png` });
    await page.mouse.click(1, 1);
  }
  if (shots && KEPT_PANEL[where]) {
    const [panel, name] = KEPT_PANEL[where];
    await page.locator(panel).screenshot({ path: `${shots}/${name}.png` });
  }
  await reachable(page, where);
  if (view.name === "narrow") await readable(page, where);
  if (view.name === "wide") await usable(page, where);
  if (view.name === "wide" || (view.name === "narrow" && JUDGED.narrow.test(file))) for (const control of [searched, thinned, saved, folds]) await control(page, where);
  if (JUDGED[view.name].test(file)) await accessible(page, where);
  if (view.name === "wide") check(where, (await page.pdf()).length > 5000, "does not print");
  await page.close();
};
for (const file of files) await Promise.all(VIEWS.map((view) => look(file, view)));
const bare = await browser.newPage({ javaScriptEnabled: false });
await bare.goto(pathToFileURL(resolve(folder, "fedpc.html")).href);
check("without scripts", await bare.locator("#edge-table").isVisible(), "the table of edges is hidden");
check("without scripts", await bare.locator("svg.cd-picture").first().isVisible(), "no graph");

const follow = async (script) => {
  const where = `live view of ${basename(script)}`;
  const server = spawn(python, [script], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((done) => { server.on("exit", done); });
  const said = new Promise((done) => { server.stdout.once("data", (text) => done(String(text).trim())); });
  const address = await Promise.race([said, ended.then(() => "")]);
  check(where, address, "ended before it said its address");
  if (!address) return;
  const page = await opened(browser, VIEWS[0], address, where);
  const status = page.locator("#status");
  await page.locator("#live-sites").waitFor({ timeout: PATIENCE_MS });
  check(where, (await status.innerText()).match(/^Round |ended/), "does not say which round it is");
  await page.locator("svg.cd-picture").waitFor({ timeout: PATIENCE_MS });
  if (shots) await page.screenshot({ path: `${shots}/live.png` });
  await accessible(page, where);
  await page.waitForFunction(() => document.getElementById("status").innerText.includes("has ended"), null, { timeout: PATIENCE_MS });
  check(where, (await ended) === 0, "its run failed");
  await page.close();
};
for (const script of lives) await follow(script);
await browser.close();

if (faults.length) {
  console.error(faults.join("\n"));
  process.exit(1);
}
console.log(`${files.length} pages, ${VIEWS.length} views each, ${lives.length} live views: no message, no request, no finding of axe-core`);
