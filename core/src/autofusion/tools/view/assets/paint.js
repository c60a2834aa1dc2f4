// Colours, and how a box is drawn at each scale. The palette lives in the style sheet, so that both themes are there.

const COLOURINGS = [["class", "Kind"], ["fate", "Decision"], ["time", "Time"]];
const CLASSES = [
  ["contraction", "Convolution, product"], ["pointwise", "Pointwise"], ["reduction", "Reduction, pooling"],
  ["movement", "Movement"], ["opaque", "Other"], ["border", "Input, output"],
];
const FATES = [
  ["fused", "Fused"], ["folded", "Folded together"], ["alone", "On its own"], ["gone", "Rewritten away"], ["free", "Costs nothing"],
];
const HEAT = [[0, "heat-0"], [0.12, "heat-1"], [0.3, "heat-2"], [0.6, "heat-3"], [1, "heat-4"]];
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const MONO = "ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const ROW = 44, INNER_ROW = 30, HEADER = 30, PAD = 12;

let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = new Proxy({}, {get: (cache, name) => cache[name] ?? (cache[name] = style.getPropertyValue("--" + name).trim())});
}

function rgb(hex) { return [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)); }
function mix(a, b, t) {
  const x = rgb(a), y = rgb(b);
  return "#" + x.map((v, i) => Math.round(v + (y[i] - v) * t).toString(16).padStart(2, "0")).join("");
}
/** Colour of a share of the slowest step; a root spreads the many small ones. */
function heat(share) {
  const at = Math.sqrt(Math.max(0, Math.min(1, share)));
  for (let i = 1; i < HEAT.length; i++) {
    if (at <= HEAT[i][0]) {
      const [low, a] = HEAT[i - 1], [high, b] = HEAT[i];
      return mix(palette[a], palette[b], (at - low) / (high - low));
    }
  }
  return palette["heat-4"];
}
function isDark(hex) {
  const [r, g, b] = rgb(hex);
  return r * 0.299 + g * 0.587 + b * 0.114 < 140;
}

/** {bar, fill, ink}: the stripe, the face and the text of a node. */
function coloursOf(node, colouring, strength = 0.16) {
  if (colouring === "time" && (node.runs || !node.group)) {
    if (!node.runs) return {bar: palette.line, fill: palette.surface, ink: palette.ink, faint: true};
    const fill = heat(node.seconds / (slowest || 1));
    return {bar: fill, fill, ink: isDark(fill) ? "#ffffff" : "#16181d"};
  }
  const bar = palette[colouring === "fate" ? "fate-" + fate(node) : "class-" + node.raw.cls];
  return {bar, fill: mix(palette.surface, bar, node.free || node.border ? strength / 3 : strength), ink: palette.ink, faint: node.free};
}

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();
function textWidth(text, font) {
  const key = font + "|" + text;
  if (!widths.has(key)) {
    measuring.font = font;
    widths.set(key, measuring.measureText(text).width);
  }
  return widths.get(key);
}
const TITLE = "600 13px " + FONT, NAME = "11px " + MONO, SMALL = "600 11px " + FONT;

function fitted(text, font, room) {
  if (textWidth(text, font) <= room) return text;
  const key = "cut|" + font + "|" + Math.round(room) + "|" + text;
  if (!widths.has(key)) {
    let low = 0, high = text.length;
    while (low < high) {
      const half = (low + high + 1) >> 1;
      if (textWidth(text.slice(0, half) + "\u2026", font) <= room) low = half; else high = half - 1;
    }
    widths.set(key, text.slice(0, low) + "\u2026");
  }
  return widths.get(key);
}

/** Size of a closed node. */
function closedSize(node) {
  if (node.inside) return {w: Math.min(210, Math.max(84, textWidth(node.title, SMALL) + 34, Math.min(130, textWidth(node.raw.name, NAME)) + 24)), h: INNER_ROW + 10};
  const badge = node.fused ? 34 : 0;
  const line = textWidth(node.raw.name, NAME) + (node.runs ? 62 : 10);
  return {w: Math.round(Math.min(250, Math.max(96, textWidth(node.title, TITLE) + 30 + badge, Math.min(line + 20, 200)))), h: ROW};
}

function roundRect(ctx, x, y, w, h, r) {
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, Math.min(r, w / 2, h / 2));
}

function drawNode(ctx, box, scale, look) {
  const {node} = box, {x, y, w, h} = box;
  const colours = coloursOf(node, look.colouring, scale < 0.3 ? 0.5 : 0.16); // colour is all that is seen from afar
  const faded = look.dim && !look.dim.has(node) ? 0.28 : 1;
  ctx.globalAlpha = faded * (colours.faint && !node.border ? 0.85 : 1);
  const far = scale < 0.16;
  if (far) {
    ctx.fillStyle = look.colouring === "time" ? colours.fill : colours.bar;
    ctx.fillRect(x, y, w, h);
    mark(ctx, box, scale, look);
    ctx.globalAlpha = 1;
    return;
  }
  const radius = node.border ? h / 2 : 7;
  if (node.fused && !node.open) { // a second card behind: there is more inside
    ctx.fillStyle = mix(palette.surface, colours.bar, 0.35);
    ctx.strokeStyle = colours.bar;
    ctx.lineWidth = 1;
    roundRect(ctx, x + 5, y + 5, w, h, radius);
    ctx.fill();
    ctx.stroke();
  }
  ctx.fillStyle = node.open ? mix(palette.canvas, colours.bar, 0.08) : colours.fill;
  ctx.strokeStyle = node.open || node.fused ? colours.bar : palette["node-line"];
  ctx.lineWidth = node.open ? 1.8 : 1;
  if (node.free) ctx.setLineDash([4, 3]);
  roundRect(ctx, x, y, w, h, radius);
  ctx.fill();
  ctx.stroke();
  ctx.setLineDash([]);
  if (!node.border && (look.colouring !== "time" || (node.group && !node.runs))) {
    ctx.fillStyle = colours.bar;
    ctx.beginPath();
    ctx.roundRect(x, y, scale < 0.4 ? 9 : 5, node.open ? HEADER : h, [radius, 0, 0, node.open ? 0 : radius]);
    ctx.fill();
  }
  text(ctx, box, scale, look, colours);
  mark(ctx, box, scale, look);
  ctx.globalAlpha = 1;
}

function text(ctx, box, scale, look, colours) {
  const {node} = box, {x, y, w, h} = box, ink = node.open ? palette.ink : colours.ink;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  const inner = node.inside, count = node.fused ? node.origin.length : 0;
  if (scale < 0.24) return;
  if (scale < 0.62 && node.open) {
    ctx.font = "600 " + Math.min(22, 10 / scale).toFixed(1) + "px " + FONT;
    ctx.fillStyle = ink;
    ctx.fillText(fitted(node.title, ctx.font, w - 24), x + 14, y + HEADER / 2 + 1);
    return;
  }
  if (scale < 0.62 && !inner) { // from afar large letters are worth more than many
    const second = scale > 0.42 && node.runs && look.colouring === "time" ? time(node.seconds) : "";
    const px = Math.min(second ? 17 : 20, 9.5 / scale), font = "600 " + px.toFixed(1) + "px " + FONT;
    ctx.font = font;
    ctx.fillStyle = ink;
    ctx.fillText(fitted(node.brief, font, w - 20), x + 14, y + h / 2 + 1 - (second ? px * 0.55 : 0));
    if (second) {
      ctx.font = font.replace("600", "400");
      ctx.fillText(second, x + 14, y + h / 2 + 1 + px * 0.6);
    }
    return;
  }
  if (inner && scale < 0.45) return;
  const titleFont = inner ? SMALL : TITLE, line = node.open ? y + HEADER / 2 : y + (inner ? 13 : 15);
  let room = w - 22;
  if (count && scale >= 0.4) {
    const label = String(count), wide = textWidth(label, SMALL) + 14;
    ctx.font = SMALL;
    ctx.fillStyle = node.open ? colours.bar : mix(palette.surface, colours.bar, 0.35);
    roundRect(ctx, x + w - wide - 8, line - 9, wide, 18, 9);
    ctx.fill();
    ctx.fillStyle = node.open ? palette.surface : palette.ink;
    ctx.textAlign = "center";
    ctx.fillText(label, x + w - wide / 2 - 8, line + 1);
    ctx.textAlign = "left";
    room -= wide + 6;
  }
  ctx.font = titleFont;
  ctx.fillStyle = ink;
  ctx.fillText(fitted(node.title, titleFont, room), x + 13, line);
  if (node.open) return;
  ctx.globalAlpha *= 0.72;
  const low = y + h - (inner ? 11 : 13), taken = node.runs && !inner ? time(node.seconds) : "";
  if (taken) {
    ctx.font = NAME;
    ctx.textAlign = "right";
    ctx.fillText(taken, x + w - 8, low);
    ctx.textAlign = "left";
  }
  ctx.font = NAME;
  ctx.fillText(fitted(node.raw.name, NAME, w - 22 - (taken ? textWidth(taken, NAME) + 8 : 0)), x + 13, low);
}

/** The mark of a refused site, and rings around what is selected, linked or found. */
function mark(ctx, box, scale, look) {
  const {node} = box, {x, y, w, h} = box;
  if (node.refusal && !node.inside) {
    const r = Math.max(7, 4.5 / scale);
    ctx.fillStyle = palette["verdict-" + node.refusal];
    ctx.beginPath();
    ctx.arc(x + w - 1, y + 1, r, 0, 7);
    ctx.fill();
    if (scale > 0.35) {
      ctx.fillStyle = "#ffffff";
      ctx.font = "700 " + (r * 1.5).toFixed(1) + "px " + FONT;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText("!", x + w - 1, y + 1.5);
      ctx.textAlign = "left";
    }
  }
  const ring = look.selected === node ? [palette.accent, 3.2, []] : look.linked.has(node) ? [palette.accent, 2.4, [6, 4]]
    : look.found.has(node) ? [palette.found, 3, []] : null;
  if (!ring) return;
  const grow = 3 / Math.min(1, Math.max(scale, 0.3));
  ctx.globalAlpha = 1;
  ctx.strokeStyle = ring[0];
  ctx.lineWidth = ring[1] / Math.min(1, Math.max(scale, 0.25));
  ctx.setLineDash(ring[2].map(d => d / Math.min(1, scale)));
  roundRect(ctx, x - grow, y - grow, w + 2 * grow, h + 2 * grow, 10);
  ctx.stroke();
  ctx.setLineDash([]);
}
