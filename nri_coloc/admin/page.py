"""The page at `/`: one file, nothing fetched from elsewhere, readable in light and dark.

It knows only `/v1/state` and `/v1/audit`. Pod names and annotation values are hostile input: the script makes
every node with `textContent` and never parses markup, which a test holds it to.
"""

from typing import Final

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #fff; --line: #d1d9e0;
  --reserved: #d0d4da; --system: #f3d19c; --share: #bcd9f5; --reclaim: #2f8f3a; --alarm: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #9aa4af; --paper: #14171b;
  --line: #343b43; --reserved: #4a5058; --system: #6b4e1c; --share: #1f4a73; --reclaim: #58b865;
  --alarm: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 80rem; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.3rem; margin: 0; } h2 { font-size: 1rem; margin: 1.6rem 0 .5rem; }
#status, .note { color: var(--soft); } #status.alarm { color: var(--alarm); font-weight: 600; }
.cpus { display: flex; flex-wrap: wrap; gap: 3px; margin-bottom: .6rem; }
.cpu { width: 3.1rem; padding: .2rem; border: 1px solid var(--line); border-radius: 4px; text-align: center;
  font-size: .8rem; overflow: hidden; white-space: nowrap; text-overflow: ellipsis; }
.cpu b { display: block; font-variant-numeric: tabular-nums; }
.reserved { background: var(--reserved); } .system { background: var(--system); }
.share { background: var(--share); } .lent { box-shadow: inset 0 -4px var(--reclaim); }
.dedicated { color: #14171b; background: hsl(var(--hue) 70% 76%); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 600; } td.short { white-space: nowrap; overflow-wrap: normal; }
td.differs { color: var(--alarm); font-weight: 600; }
"""

_BODY: Final = """
<h1>nri-coloc</h1>
<p id="status" role="status">asking the daemon …</p>
<h2>CPUs</h2><div id="cpus"></div>
<p class="note">One cell a CPU: its number, and the pool or the container that owns it; a green foot: lent to
reclaimed pods.</p>
<h2>Pools</h2><div class="scroll"><table id="pools"></table></div>
<h2>Containers</h2><div class="scroll"><table id="containers"></table></div>
<h2>Last decisions</h2><div class="scroll"><table id="decisions"></table></div>
<noscript>This page draws itself with a script; the same is at /v1/state and /v1/audit.</noscript>
"""

_SCRIPT: Final = """
"use strict";
const PERIOD_MS = 2000, KEPT = 50;
let since = 0, decisions = [];
const byId = (id) => document.getElementById(id);

function make(tag, text, className) {
  const node = document.createElement(tag);
  node.textContent = text === undefined || text === null ? "" : String(text);
  if (className) node.className = className;
  return node;
}
function parse(list) {
  return String(list).split(",").filter(Boolean).flatMap((part) => {
    const [low, high] = part.split("-").map(Number);
    return Array.from({ length: (high === undefined ? low : high) - low + 1 }, (_, i) => low + i);
  });
}
function fill(table, heads, rows) {
  const head = make("tr");
  head.append(...heads.map((text) => make("th", text)));
  table.replaceChildren(head, ...rows.map((cells) => {
    const row = make("tr");
    row.append(...cells.map((cell) => cell instanceof Node ? cell : make("td", cell)));
    return row;
  }));
}
const full = (c) => [c.namespace, c.pod, c.container].filter(Boolean).join("/");

function owners(state) {
  const owner = new Map();
  for (const pool of ["system", "share", "reserved"])
    for (const cpu of parse(state.pools[pool].cpus)) owner.set(cpu, { pool, label: pool });
  state.containers.filter((c) => c.exclusive).forEach((c, index) => {
    for (const cpu of parse(c.cpus))
      owner.set(cpu, { pool: "dedicated", label: full(c), hue: Math.round(index * 137.5) % 360 });
  });
  return owner;
}
function cell(cpu, who, lent) {
  const node = make("div", "", "cpu " + (who ? who.pool : "") + (lent ? " lent" : ""));
  node.append(make("b", cpu), make("span", who ? who.label.split("/").pop() : "-"));
  node.title = "CPU " + cpu + ": " + (who ? who.label : "nobody") + (lent ? ", lent to reclaimed pods" : "");
  if (who && who.hue !== undefined) node.style.setProperty("--hue", who.hue);
  return node;
}
function drawCpus(state) {
  const owner = owners(state), online = new Set(parse(state.node.cpus));
  const lent = new Set(parse(state.pools.reclaim.cpus));
  const nodes = state.node.numa.length ? state.node.numa : [{ id: 0, cpus: state.node.cpus }];
  byId("cpus").replaceChildren(...nodes.flatMap((numa) => {
    const row = make("div", "", "cpus");
    const here = parse(numa.cpus).filter((cpu) => online.has(cpu));
    row.append(...here.map((cpu) => cell(cpu, owner.get(cpu), lent.has(cpu))));
    return nodes.length > 1 ? [make("div", "node " + numa.id, "note"), row] : [row];
  }));
}
function drawTables(state) {
  fill(byId("pools"), ["pool", "CPUs", "containers"],
    Object.entries(state.pools).map(([name, pool]) => [name, pool.cpus || "-", pool.members]));
  fill(byId("containers"), ["container", "class", "pool", "CPUs", "read back", "memory nodes"],
    state.containers.map((c) => [full(c), c.class, c.pool, c.cpus + (c.exclusive ? " (its own)" : ""),
      make("td", c.actual_cpus || "-", c.actual_cpus && c.actual_cpus !== c.cpus ? "differs" : ""), c.mems]));
}
function drawDecisions() {
  fill(byId("decisions"), ["time", "event", "whom", "reason", "because"], decisions.map((r) => [
    make("td", String(r.ts).slice(11, 23), "short"), make("td", r.event, "short"), full(r) || r.pool,
    make("td", r.reason, "short"), r.because]));
}
async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  if (!answer.ok) throw new Error(path + " answered " + answer.status);
  return answer.json();
}
async function askDecisions() {
  for (;;) {
    const page = await ask("/v1/audit?limit=1000&since=" + since);
    if (page.next < since) decisions = [];  // the daemon began anew
    const more = page.next !== since && page.records.length === 1000;
    since = page.next;
    decisions = page.records.reverse().concat(decisions).slice(0, KEPT);
    if (!more) return;
  }
}
async function tick() {
  const status = byId("status");
  try {
    const [state] = await Promise.all([ask("/v1/state"), askDecisions()]);
    drawCpus(state); drawTables(state); drawDecisions();
    status.className = "";
    status.textContent = (state.mode === "observe" ? "observing, changing nothing" : "enforcing") +
      " · CPUs " + state.node.cpus + " · " + state.containers.length + " containers · " +
      new Date().toLocaleTimeString();
  } catch (error) {
    status.className = "alarm";
    status.textContent = "no answer from the daemon (" + error.message + "); what follows is old";
  }
}
async function loop() {
  if (!document.hidden) await tick();
  setTimeout(loop, PERIOD_MS);
}
loop();
"""

PAGE: Final = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>nri-coloc</title>'
    '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
    f"<style>{_STYLE}</style></head><body>{_BODY}<script>{_SCRIPT}</script></body></html>\n"
).encode()
"""The page as it is sent."""
