// What the user does: choosing, searching, keys; and what both networks show of it.

const panes = [new Pane(offSide), new Pane(onSide)];
const paneOf = node => panes[node.side === offSide ? 0 : 1];
const host = document.getElementById("panes");
host.append(...panes.map(p => p.element));
const state = {view: "both", colouring: data.profiled ? "time" : "class", node: null, hits: [], hit: -1, columns: true};
const VIEWS = [["on", "Fused"], ["both", "Side by side"], ["off", "Level off"]];

// ---- what is shown ---------------------------------------------------------------------------------------------

function choice(id, options, current, act) {
  document.getElementById(id).replaceChildren(...options.map(([value, label]) => h("button", {
    "aria-pressed": String(value === current()), "data-value": value, onclick: () => { act(value); },
  }, label)));
}

function show(view) {
  state.view = view;
  panes[0].element.hidden = view === "on";
  panes[1].element.hidden = view === "off";
  host.dataset.view = view;
  choice("choose-view", VIEWS, () => state.view, show);
  requestAnimationFrame(() => panes.forEach(p => p.resized()));
}

function colour(colouring) {
  state.colouring = colouring;
  choice("choose-colour", COLOURINGS, () => state.colouring, colour);
  refresh(true);
}

function refresh(maps = false) {
  const linked = new Set(state.node ? counterparts(state.node) : []);
  for (const pane of panes) {
    Object.assign(pane.look, {colouring: state.colouring, selected: state.node, linked, found: new Set(state.hits.map(hit => hit.node)), dim: null});
    if (state.hits.length) pane.look.dim = pane.look.found;
    if (maps && pane.size) pane.drawMap();
    pane.draw();
  }
  legend();
}

function legend() {
  for (const pane of panes) {
    const side = pane.side, spent = data.profiled ? side.seconds : side.predicted;
    pane.caption.replaceChildren(
      h("b", {}, side.label), h("span", {}, plural(side.steps, "step")), h("span", {}, time(spent) + (data.profiled ? " measured" : " predicted")),
      h("span", {}, bytes(side.peak) + " alive"));
  }
  let box = document.getElementById("legend");
  if (!box) host.append(box = h("div", {id: "legend"}));
  const entries = state.colouring === "time"
    ? [h("span", {}, data.profiled ? "measured" : "predicted"), h("span", {class: "ramp"}), h("span", {}, "0 to " + time(slowest))]
    : (state.colouring === "fate" ? FATES : CLASSES).map(([name, label]) =>
      h("span", {}, h("span", {class: "dot", style: "background:var(--" + (state.colouring === "fate" ? "fate-" : "class-") + name + ")"}), label));
  const marks = [h("span", {}, h("span", {class: "dot region"}), "Dense in small operators")];
  if (refusals.length) marks.push(h("span", {}, h("span", {class: "dot bang"}, "!"), "Refused site"));
  const before = box.offsetHeight;
  box.replaceChildren(...entries, ...marks);
  if (box.offsetHeight !== before) for (const pane of panes) if (pane.size && pane.isFitted && pane.width) { pane.layout(); pane.fit(); }
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "\u2600" : "\u263e";
  readPalette();
  refresh(true);
}

// ---- selecting -------------------------------------------------------------------------------------------------

function select(node, {reveal = true, region = null} = {}) {
  state.node = node;
  if (node && reveal) openAround(node);
  showPanel(node);
  refresh();
  const name = node ? node.side.key + ":" + node.raw.name : "";
  history.replaceState(null, "", name ? "#" + encodeURIComponent(name) : location.pathname + location.search);
  if (!node || !reveal) return;
  if (state.view !== "both" && state.view !== node.side.key) show(node.side.key);
  requestAnimationFrame(() => {
    paneOf(node).reveal(region ? region.members : [node]);
    const others = counterparts(node);
    if (others.length && state.view === "both") paneOf(others[0]).reveal(region ? region.members.flatMap(counterparts) : others);
  });
}
/** Open every node that `node` lies in. */
function openAround(node) {
  let changed = false;
  for (let group = node.group; group; group = group.group) {
    changed = changed || !group.open;
    group.open = true;
  }
  const pane = paneOf(node);
  if (changed && pane.size) pane.layout();
}

go = (node, region = null) => select(node, {region});

callOut.select = (node, pane) => {
  select(node, {reveal: false});
  if (!node || state.view !== "both") return;
  const others = counterparts(node);
  if (others.length) panes[1 - panes.indexOf(pane)].reveal(others);
};
callOut.toggle = node => {
  node.open = !node.open;
  const pane = paneOf(node);
  const whole = pane.isFitted;
  pane.layout(node);
  if (whole || node.open) pane.reveal([node]);
  if (state.node === node) showPanel(node); else select(node, {reveal: false});
};
callOut.showOther = node => {
  const others = counterparts(node);
  if (!others.length) return;
  if (state.view !== "both") show("both");
  requestAnimationFrame(() => paneOf(others[0]).reveal(others));
};

function step(direction) {
  const at = fusedSites.indexOf(state.node), count = fusedSites.length;
  if (count) select(fusedSites[at < 0 ? (direction > 0 ? 0 : count - 1) : (at + direction + count) % count]);
}

function walk(key) {
  const node = state.node;
  if (!node) return;
  const {before, after} = node.neighbours;
  const pane = paneOf(node), box = pane.boxOf.get(node);
  let next = null;
  if (key === "ArrowUp") next = before[0];
  else if (key === "ArrowDown") next = after[0];
  else { // a sibling: the nearest box on that side in the same layer
    const way = key === "ArrowLeft" ? -1 : 1;
    next = pane.boxes.filter(b => b.node.graph === node.graph && b.node !== node && (b.x - box.x) * way > 0 && Math.abs(b.y + b.h / 2 - box.y - box.h / 2) < 12)
      .sort((a, b) => (a.x - b.x) * way)[0]?.node;
  }
  if (next) select(next);
}

// ---- searching -------------------------------------------------------------------------------------------------

const field = document.getElementById("search"), list = document.getElementById("hits");

function find() {
  state.hits = search(field.value);
  state.hit = state.hits.length ? 0 : -1;
  listHits();
  refresh();
}

function listHits() {
  const asked = Boolean(field.value.trim());
  list.hidden = !asked;
  field.setAttribute("aria-expanded", String(asked));
  if (!asked) return;
  list.replaceChildren(...state.hits.slice(0, 60).map(({node, matched}, i) => h("li", {
    role: "option", "aria-selected": String(i === state.hit), "data-key": node.key,
    onpointerdown: event => { event.preventDefault(); state.hit = i; choose(); },
  }, h("span", {class: "dot", style: "background:var(--class-" + node.raw.cls + ")"}),
  h("span", {class: "what"}, h("b", {}, node.title), h("code", {}, matched === node.raw.op || matched === node.title ? node.raw.name : matched)),
  h("span", {class: "right"}, node.side === onSide ? "fused" : "level off"))),
  h("li", {class: "total", role: "presentation"}, state.hits.length ? plural(state.hits.length, "match").replace("matchs", "matches") : "Nothing matches"));
  list.querySelector("[aria-selected=true]")?.scrollIntoView({block: "nearest"});
}

function choose() {
  const hit = state.hits[state.hit];
  if (!hit) return;
  clearSearch();
  field.blur();
  select(hit.node);
}

function clearSearch() {
  field.value = "";
  state.hits = [];
  listHits();
  refresh();
}

field.addEventListener("input", find);
field.addEventListener("focus", () => { if (field.value) find(); });
field.addEventListener("blur", () => { list.hidden = true; });
field.addEventListener("keydown", event => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const count = Math.min(60, state.hits.length);
    if (count) state.hit = (state.hit + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
    listHits();
  } else if (event.key === "Enter") choose();
  else if (event.key === "Escape") { clearSearch(); field.blur(); }
  event.stopPropagation();
});

// ---- keys ------------------------------------------------------------------------------------------------------

const active = () => {
  const focused = panes.find(p => p.element.contains(document.activeElement) && !p.element.hidden);
  return focused || (state.node && !paneOf(state.node).element.hidden ? paneOf(state.node) : panes.find(p => !p.element.hidden && p.side === onSide) || panes[0]);
};
const KEYS = {
  "/": () => { field.focus(); field.select(); },
  "?": () => document.getElementById("keys").showModal(),
  "+": () => active().zoom(1.35), "=": () => active().zoom(1.35), "-": () => active().zoom(1 / 1.35),
  "0": () => panes.forEach(p => p.fit()),
  f: () => state.node && paneOf(state.node).reveal([state.node]),
  1: () => show("on"), 2: () => show("both"), 3: () => show("off"),
  c: () => { const names = COLOURINGS.map(c => c[0]); colour(names[(names.indexOf(state.colouring) + 1) % names.length]); },
  l: () => { state.columns = !state.columns; panes.forEach(p => { p.columns = state.columns; if (p.size) { p.layout(state.node); p.fit(); } }); },
  t: () => theme(document.documentElement.dataset.theme !== "dark"),
  "[": () => step(-1), "]": () => step(1),
  Escape: () => select(null),
};
document.addEventListener("keydown", event => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); KEYS["/"](); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("button, summary, input") && (event.key === "Enter" || event.key === " ")) return;
  if (event.key === "Enter" && state.node && state.node.bodies.length) { event.preventDefault(); callOut.toggle(state.node); return; }
  if (event.key.startsWith("Arrow") && state.node && !panelElement.contains(document.activeElement)) { event.preventDefault(); walk(event.key); return; }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});
document.getElementById("theme").onclick = KEYS.t;
document.getElementById("help").onclick = KEYS["?"];

// ---- start -----------------------------------------------------------------------------------------------------

document.getElementById("model-name").textContent = data.name;
if (data.level === "off") { state.view = "off"; document.getElementById("choose-view").hidden = true; }
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
readPalette();
show(state.view);
colour(state.colouring);
theme(document.documentElement.dataset.theme === "dark");
showPanel(null);
const wanted = decodeURIComponent(location.hash.slice(1)), colon = wanted.indexOf(":");
if (colon > 0) {
  const side = sides.find(s => s.key === wanted.slice(0, colon));
  const node = side && findByName(wanted.slice(colon + 1), side);
  if (node) requestAnimationFrame(() => requestAnimationFrame(() => select(node)));
}

/** For scripts and tests: what is shown, and where a node is on the screen. */
window.autofusion = {
  data, sides, panes, state, select, search, layered, placed,
  node: (side, name) => sides.find(s => s.key === side).graph.nodes.find(n => n.raw.name === name || n.origin.includes(name)),
  where(node) {
    const pane = paneOf(node), box = pane.boxOf.get(node), r = pane.canvas.getBoundingClientRect();
    return {x: r.left + pane.x + (box.x + box.w / 2) * pane.scale, y: r.top + pane.y + (box.y + box.h / 2) * pane.scale, w: box.w * pane.scale, h: box.h * pane.scale};
  },
};
