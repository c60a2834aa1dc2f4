// One network on a canvas: layout, zoom and pan, what is under the pointer, and a map of the whole.

const NEAREST = 2.5;
const MARGIN = 24, TOP = 50; // what the captions cover
const callOut = {select() {}, toggle() {}, moved() {}};

class Pane {
  constructor(side) {
    this.side = side;
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.columns = true;
    this.look = {colouring: "class", selected: null, linked: new Set(), found: new Set(), dim: null};
    this.boxes = [];
    this.boxOf = new Map();
    this.fresh = true;
    this.element = document.createElement("section");
    this.element.className = "pane";
    this.element.tabIndex = 0;
    this.element.dataset.side = side.key;
    this.element.setAttribute("aria-label", side.label);
    this.canvas = this.element.appendChild(document.createElement("canvas"));
    this.caption = this.element.appendChild(document.createElement("div"));
    this.caption.className = "caption";
    this.map = this.element.appendChild(document.createElement("canvas"));
    this.map.className = "map";
    this.buttons();
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  buttons() {
    const bar = this.element.appendChild(document.createElement("div"));
    bar.className = "zoom";
    for (const [label, name, act] of [
      ["+", "Zoom in", () => this.zoom(1.35)], ["\u2212", "Zoom out", () => this.zoom(1 / 1.35)], ["\u2922", "Show everything", () => this.fit()],
    ]) {
      const button = bar.appendChild(document.createElement("button"));
      button.textContent = label;
      button.title = name;
      button.setAttribute("aria-label", name);
      button.onclick = act;
    }
  }

  // ---- layout ----------------------------------------------------------------------------------------------------

  layout(anchor = null) {
    const before = anchor && this.boxOf.get(anchor);
    const shape = this.columns ? {width: Math.max(200, this.width - 2 * MARGIN), height: Math.max(200, this.height - TOP - this.covered)} : 1;
    const scene = this.arranged(this.side.graph, shape);
    this.boxes = [];
    this.paths = new Map();
    this.arrows = [];
    this.labels = [];
    this.routes = new Map();
    this.flatten(this.side.graph, scene, 0, 0);
    this.boxOf = new Map(this.boxes.map(box => [box.node, box]));
    this.size = {w: scene.width, h: scene.height};
    this.hulls = null;
    const after = before && this.boxOf.get(anchor);
    if (after) {
      this.x += (before.x - after.x) * this.scale;
      this.y += (before.y - after.y) * this.scale;
    }
    this.drawMap();
    this.draw();
  }

  arranged(graph, shape) {
    const nested = new Map();
    const size = at => {
      const node = graph.nodes[at];
      if (!node.open) return closedSize(node);
      const bodies = node.bodies.map(body => this.arranged(body, body.nodes.length > 12 ? {width: 900, height: 700} : 1));
      nested.set(node, bodies);
      const caption = node.bodies.some(b => b.name) ? 18 : 0;
      return {
        w: Math.max(closedSize(node).w, bodies.reduce((w, b) => w + b.width + PAD, PAD)),
        h: HEADER + caption + bodies.reduce((h, b) => Math.max(h, b.height), 0) + 2 * PAD,
      };
    };
    return {...placed(graph.layers, size, shape), nested};
  }

  flatten(graph, scene, dx, dy) {
    scene.boxes.forEach((box, at) => this.boxes.push({...box, x: box.x + dx, y: box.y + dy, node: graph.nodes[at]}));
    for (const [key, piece] of scene.pieces) {
      const points = piece.points.map((p, i) => p + (i % 2 ? dy : dx));
      const name = graph.group ? graph.group.key + graph.name : piece.column;
      if (!this.paths.has(name)) this.paths.set(name, new Path2D());
      trace(this.paths.get(name), piece.kind, points);
      this.routes.set(graphKey(graph) + key, {kind: piece.kind, points});
      const target = Number(key.slice(key.indexOf(",") + 1));
      if (target < graph.nodes.length) this.arrows.push([points[points.length - 2], points[points.length - 1]]);
    }
    scene.boxes.forEach((box, at) => {
      const node = graph.nodes[at], outs = node.raw.outs || [];
      if (outs.length && graph.layers.next[at].length) this.labels.push([box.x + box.w / 2 + dx, box.y + box.h + dy, outs[0][1], Math.min(190, scene.width - box.x - box.w / 2 + 4 + (graph.group ? 0 : 200))]);
      if (!node.open) return;
      let left = box.x + dx + PAD;
      const caption = node.bodies.some(b => b.name) ? 18 : 0;
      const bodies = scene.nested.get(node), total = bodies.reduce((w, b) => w + b.width + PAD, -PAD);
      left += Math.max(0, (box.w - 2 * PAD - total) / 2);
      bodies.forEach((inner, i) => {
        if (caption) this.labels.push([left, box.y + dy + HEADER - 6, node.bodies[i].name, 190]);
        this.flatten(node.bodies[i], inner, left, box.y + dy + HEADER + caption + PAD);
        left += inner.width + PAD;
      });
    });
  }

  // ---- view ------------------------------------------------------------------------------------------------------

  /** Height at the bottom that the legend covers. */
  get covered() { return (document.getElementById("legend")?.offsetHeight || 34) + 22; }
  get width() { return this.element.clientWidth; }
  get height() { return this.element.clientHeight; }

  resized() {
    const ratio = window.devicePixelRatio || 1;
    if (!this.width || !this.height) return;
    const [w, h] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
    const first = this.fresh, fitted = this.isFitted;
    if (this.canvas.width !== w || this.canvas.height !== h || first) {
      this.canvas.width = w;
      this.canvas.height = h;
      if (first || fitted) {
        this.fresh = false;
        this.layout();
        this.fit();
        callOut.moved(this);
      } else this.draw();
    }
  }

  fit() {
    const room = this.height - TOP - this.covered;
    this.scale = Math.min((this.width - 2 * MARGIN) / this.size.w, room / this.size.h, 1.25);
    this.x = (this.width - this.size.w * this.scale) / 2;
    this.y = TOP + Math.max(0, (room - this.size.h * this.scale) / 2);
    this.isFitted = true;
    this.draw();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const least = Math.min(0.05, this.scale), scale = Math.max(least, Math.min(NEAREST, this.scale * factor));
    this.x = px - (px - this.x) * scale / this.scale;
    this.y = py - (py - this.y) * scale / this.scale;
    this.scale = scale;
    this.isFitted = false;
    this.draw();
  }

  /** Bring nodes into view; `closer` also zooms in so far that they can be read. */
  reveal(nodes, closer = true) {
    const seenAs = n => n && (this.boxOf.get(n) || seenAs(n.group)); // in a closed node: as that node
    const boxes = nodes.map(seenAs).filter(Boolean);
    if (!boxes.length) return;
    const x0 = Math.min(...boxes.map(b => b.x)), x1 = Math.max(...boxes.map(b => b.x + b.w));
    const y0 = Math.min(...boxes.map(b => b.y)), y1 = Math.max(...boxes.map(b => b.y + b.h));
    const fits = Math.min((this.width - 120) / (x1 - x0), (this.height - 160) / (y1 - y0));
    const sx0 = x0 * this.scale + this.x, sx1 = x1 * this.scale + this.x, sy0 = y0 * this.scale + this.y, sy1 = y1 * this.scale + this.y;
    const seen = sx0 > 30 && sx1 < this.width - 30 && sy0 > 50 && sy1 < this.height - 50;
    const scale = closer ? Math.min(fits, Math.max(this.scale, 0.85), NEAREST) : Math.min(this.scale, fits);
    if (seen && scale <= this.scale * 1.01) return;
    this.glide(scale, this.width / 2 - (x0 + x1) / 2 * scale, this.height / 2 - (y0 + y1) / 2 * scale);
  }

  glide(scale, x, y) {
    this.isFitted = false;
    const from = [this.scale, this.x, this.y], start = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 260;
    this.target = [scale, x, y];
    const step = now => {
      if (!this.target || this.target[1] !== x || this.target[2] !== y) return;
      const t = Math.min(1, (now - start) / still), ease = 1 - (1 - t) ** 3;
      // The scale moves geometrically and the middle of the view in a line, so that nothing swings.
      const s = from[0] * (scale / from[0]) ** ease, mx = this.width / 2, my = this.height / 2;
      const ax = (mx - from[1]) / from[0], ay = (my - from[2]) / from[0], bx = (mx - x) / scale, by = (my - y) / scale;
      const k = Math.abs(scale - from[0]) < 1e-6 ? ease : (1 - from[0] / s) / (1 - from[0] / scale);
      this.scale = s;
      this.x = mx - (ax + (bx - ax) * k) * s;
      this.y = my - (ay + (by - ay) * k) * s;
      this.draw();
      if (t < 1) requestAnimationFrame(step); else this.target = null;
    };
    requestAnimationFrame(step);
  }

  // ---- drawing ---------------------------------------------------------------------------------------------------

  draw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.paint(); });
  }

  paint() {
    const ctx = this.canvas.getContext("2d"), ratio = window.devicePixelRatio || 1, {scale} = this;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = palette.canvas;
    ctx.fillRect(0, 0, this.width, this.height);
    if (!this.boxes.length) return;
    ctx.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * this.x, ratio * this.y);
    const view = {x0: -this.x / scale - 60, y0: -this.y / scale - 60, x1: (this.width - this.x) / scale + 60, y1: (this.height - this.y) / scale + 60};
    const seen = this.boxes.filter(b => b.x < view.x1 && b.x + b.w > view.x0 && b.y < view.y1 && b.y + b.h > view.y0);
    this.drawRegions(ctx, scale);
    const groups = seen.filter(b => b.node.open), others = seen.filter(b => !b.node.open);
    for (const box of groups) drawNode(ctx, box, scale, this.look);
    ctx.strokeStyle = palette.edge;
    ctx.lineWidth = Math.max(1.3, 0.7 / scale);
    ctx.globalAlpha = this.look.dim ? 0.35 : 1;
    for (const path of this.paths.values()) ctx.stroke(path);
    if (scale > 0.4) {
      ctx.fillStyle = palette.edge;
      ctx.beginPath();
      for (const [x, y] of this.arrows) if (x > view.x0 && x < view.x1 && y > view.y0 && y < view.y1) {
        ctx.moveTo(x, y + 0.5);
        ctx.lineTo(x - 4, y - 7);
        ctx.lineTo(x + 4, y - 7);
      }
      ctx.fill();
    }
    ctx.globalAlpha = 1;
    this.drawSelectedEdges(ctx, scale);
    for (const box of others) drawNode(ctx, box, scale, this.look);
    if (scale > 0.72) {
      ctx.font = "10.5px " + MONO;
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      ctx.fillStyle = palette.muted;
      ctx.strokeStyle = palette.canvas;
      ctx.lineWidth = 4;
      ctx.lineJoin = "round";
      for (const [x, y, label, room] of this.labels) if (x > view.x0 && x < view.x1 && y > view.y0 && y < view.y1) {
        const short = fitted(label, "10.5px " + MONO, room);
        ctx.globalAlpha = 0.8;
        ctx.strokeText(short, x + 6, y + 9);
        ctx.globalAlpha = 1;
        ctx.fillText(short, x + 6, y + 9);
      }
    }
    this.drawMapFrame();
  }

  drawSelectedEdges(ctx, scale) {
    const node = this.look.selected;
    if (!node || node.side !== this.side) return;
    const {next, back, paths} = node.graph.layers, prefix = graphKey(node.graph);
    ctx.lineWidth = Math.max(2.6, 1.6 / scale);
    for (const [a, b, colour] of [...back[node.at].map(v => [v, node.at, palette.before]), ...next[node.at].map(v => [node.at, v, palette.accent])]) {
      const way = paths.get(a + "," + b);
      const keys = way ? way.slice(1).map((id, i) => way[i] + "," + id) : [a + "," + b];
      const path = new Path2D();
      for (const key of keys) {
        const route = this.routes.get(prefix + key);
        if (route) trace(path, route.kind, route.points);
      }
      ctx.strokeStyle = colour;
      ctx.stroke(path);
    }
  }

  drawRegions(ctx, scale) {
    if (!this.side.regions.length) return;
    const {links, cards, rims, marks, labels} = this.hulls || (this.hulls = this.regionPaths());
    if (scale < 0.2) { // one flat shape is all that can be seen
      ctx.fillStyle = mix(palette.region, palette["region-line"], 0.45);
      ctx.fill(marks);
      return;
    }
    ctx.lineCap = "round";
    for (const [colour, wide, path] of [[palette["region-line"], 43, rims], [palette.region, 40, cards]]) {
      ctx.fillStyle = ctx.strokeStyle = colour;
      ctx.lineWidth = wide;
      ctx.stroke(links);
      ctx.fill(path);
    }
    ctx.lineCap = "butt";
    if (scale < 0.5) return;
    ctx.font = SMALL;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillStyle = palette["region-ink"];
    for (const [text, x, y] of labels) ctx.fillText(text, x, y);
  }

  /** The areas of all dense regions: cards around their boxes, bridges between neighbours, links along other edges. */
  regionPaths() {
    const found = {links: new Path2D(), cards: new Path2D(), rims: new Path2D(), marks: new Path2D(), labels: []};
    const {nodes, layers} = this.side.graph;
    for (const region of this.side.regions) {
      const inside = new Set(region.nodes);
      let first = null;
      for (const node of region.members) {
        const b = this.boxOf.get(node);
        found.cards.roundRect(b.x - 10, b.y - 10, b.w + 20, b.h + 20, 14);
        found.rims.roundRect(b.x - 11.5, b.y - 11.5, b.w + 23, b.h + 23, 15);
        found.marks.rect(b.x - 10, b.y - 10, b.w + 20, b.h + 20);
        if (!first || b.column < first.column || (b.column === first.column && b.y < first.y)) first = b;
        for (const to of layers.next[node.at]) {
          const way = inside.has(to) && layers.paths.get(node.at + "," + to), c = this.boxOf.get(nodes[to]);
          if (!way || way.length > 4) continue; // a long way round says nothing about the place
          if (way.length === 2 && c.column === b.column) {
            bridge(found.cards, b, c, 10);
            bridge(found.rims, b, c, 11.5);
            bridge(found.marks, b, c, 10);
            continue;
          }
          for (let i = 1; i < way.length; i++) {
            const route = this.routes.get(graphKey(this.side.graph) + way[i - 1] + "," + way[i]);
            if (route && route.kind === "curve") trace(found.links, "curve", route.points);
          }
        }
      }
      found.labels.push([plural(region.operators, "small operator"), first.x + first.w + 16, first.y + 12]);
    }
    return found;
  }

  // ---- map -------------------------------------------------------------------------------------------------------

  drawMap() {
    const ratio = window.devicePixelRatio || 1, wide = 168, high = 132;
    const scale = Math.min((wide - 8) / this.size.w, (high - 8) / this.size.h);
    const w = Math.max(24, this.size.w * scale + 8), h = Math.max(24, this.size.h * scale + 8);
    this.map.style.width = w + "px";
    this.map.style.height = h + "px";
    this.map.width = w * ratio;
    this.map.height = h * ratio;
    this.mapScale = scale;
    const layer = this.mapLayer = document.createElement("canvas");
    layer.width = this.map.width;
    layer.height = this.map.height;
    const ctx = layer.getContext("2d");
    ctx.scale(ratio, ratio);
    for (const box of this.boxes) {
      if (box.node.group) continue;
      const colours = coloursOf(box.node, this.look.colouring);
      ctx.fillStyle = this.look.colouring === "time" ? colours.fill : colours.bar;
      ctx.fillRect(4 + box.x * scale, 4 + box.y * scale, Math.max(1, box.w * scale), Math.max(1, box.h * scale));
    }
  }

  drawMapFrame() {
    const all = this.x >= -1 && this.y >= -1 && this.x + this.size.w * this.scale <= this.width + 1 && this.y + this.size.h * this.scale <= this.height + 1;
    this.map.hidden = all;
    if (all) return;
    const ctx = this.map.getContext("2d"), ratio = window.devicePixelRatio || 1, k = this.mapScale;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.map.width, this.map.height);
    ctx.drawImage(this.mapLayer, 0, 0);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = 1.5;
    ctx.fillStyle = palette.accent + "22";
    const x = 4 - this.x / this.scale * k, y = 4 - this.y / this.scale * k, w = this.width / this.scale * k, h = this.height / this.scale * k;
    ctx.fillRect(x, y, w, h);
    ctx.strokeRect(x, y, w, h);
  }

  // ---- pointer ---------------------------------------------------------------------------------------------------

  at(px, py) {
    const x = (px - this.x) / this.scale, y = (py - this.y) / this.scale;
    for (let i = this.boxes.length - 1; i >= 0; i--) {
      const b = this.boxes[i];
      if (x >= b.x && x <= b.x + b.w && y >= b.y && y <= b.y + b.h) return b.node;
    }
    return null;
  }

  listen() {
    const {canvas} = this, fingers = new Map();
    let moved = 0, last = null, spread = 0;
    const local = event => { const r = canvas.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, local(event));
      moved = 0;
      last = local(event);
      spread = 0;
      this.target = null;
      this.element.focus({preventScroll: true});
    });
    canvas.addEventListener("pointermove", event => {
      const here = local(event);
      if (!fingers.has(event.pointerId)) {
        const node = this.at(...here);
        canvas.style.cursor = node ? "pointer" : "grab";
        canvas.title = node ? hint(node) : "";
        return;
      }
      fingers.set(event.pointerId, here);
      if (fingers.size === 2) {
        const [[ax, ay], [bx, by]] = [...fingers.values()], now = Math.hypot(ax - bx, ay - by);
        if (spread) this.zoom(now / spread, (ax + bx) / 2, (ay + by) / 2);
        spread = now;
        moved = 99;
        return;
      }
      moved += Math.abs(here[0] - last[0]) + Math.abs(here[1] - last[1]);
      if (moved > 3) {
        canvas.style.cursor = "grabbing";
        this.x += here[0] - last[0];
        this.y += here[1] - last[1];
        this.isFitted = false;
        this.draw();
      }
      last = here;
    });
    const up = event => {
      if (fingers.delete(event.pointerId) && event.type === "pointerup" && moved <= 3) callOut.select(this.at(...local(event)), this);
      canvas.style.cursor = "";
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("dblclick", event => {
      const node = this.at(...local(event));
      if (node && node.bodies.length) callOut.toggle(node); else this.zoom(1.6, ...local(event));
    });
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      this.target = null;
      if (event.shiftKey) {
        this.x -= event.deltaY + event.deltaX;
        this.isFitted = false;
        this.draw();
      } else this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016) * (event.ctrlKey ? 4 : 1)), ...local(event));
    }, {passive: false});
    const jump = event => {
      const r = this.map.getBoundingClientRect(), k = this.mapScale;
      this.x = this.width / 2 - (event.clientX - r.left - 4) / k * this.scale;
      this.y = this.height / 2 - (event.clientY - r.top - 4) / k * this.scale;
      this.draw();
    };
    this.map.addEventListener("pointerdown", event => { this.map.setPointerCapture(event.pointerId); jump(event); });
    this.map.addEventListener("pointermove", event => { if (event.buttons) jump(event); });
  }
}

/** The area between two boxes, one above the other. */
function bridge(path, a, b, grow) {
  path.moveTo(a.x - grow, a.y + a.h);
  path.lineTo(a.x + a.w + grow, a.y + a.h);
  path.lineTo(b.x + b.w + grow, b.y);
  path.lineTo(b.x - grow, b.y);
  path.closePath();
}

function graphKey(graph) { return graph.group ? graph.group.key + graph.group.bodies.indexOf(graph) + "|" : "|"; }

function hint(node) {
  const lines = [node.title, node.raw.name];
  if (node.runs) lines.push(node.raw.kernel + ", " + time(node.seconds));
  if (node.free) lines.push(node.raw.free);
  return lines.join("\n");
}

function trace(path, kind, p) {
  path.moveTo(p[0], p[1]);
  if (kind === "curve") { // straight through the rest of its layer, a curve between the layers, straight again
    const middle = (p[3] + p[5]) / 2;
    if (p[3] > p[1]) path.lineTo(p[2], p[3]);
    path.bezierCurveTo(p[2], middle, p[4], middle, p[4], p[5]);
    if (p[7] > p[5]) path.lineTo(p[6], p[7]);
  } else if (kind === "far") {
    path.bezierCurveTo(p[2], p[3], p[4], p[5], p[6], p[7]);
  } else {
    for (let i = 2; i < p.length - 2; i += 2) path.arcTo(p[i], p[i + 1], p[i + 2], p[i + 3], 10);
    path.lineTo(p[p.length - 2], p[p.length - 1]);
  }
}
