// What every page has: short numbers, axes, and plots that fit the width they are given.
const colours = ["#2f6fdb", "#d9730d", "#2a9d5c", "#b03a8c", "#8a6d1f", "#3fa7b5", "#c0392b", "#6c5ce7"];
const $ = id => document.getElementById(id);
const el = (tag, text, parent) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (parent) parent.append(e); return e; };
const short = v => !isFinite(v) ? "–" : v >= 1e6 ? (v / 1e6).toFixed(2) + "M" : v >= 1e4 ? (v / 1e3).toFixed(1) + "k" : Number.isInteger(v) ? String(v) : v >= 100 ? v.toFixed(0) : v >= 1 ? v.toFixed(2) : v.toFixed(3);
const round = v => v >= 1e6 ? +(v / 1e6).toPrecision(3) + "M" : v >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(4));
// Round numbers between two values: equal steps of 1, 2 or 5, or on a logarithmic axis 1, 2, 5 of each decade.
const steps = (low, high) => { const raw = (high - low) / 5, unit = 10 ** Math.floor(Math.log10(raw)); const step = unit * [1, 2, 5, 10].find(m => m * unit >= raw); const out = []; for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) out.push(n * step); return out; };
const decades = (low, high) => { const out = []; const all = high / low < 2000 ? [1, 2, 5] : [1]; for (let d = Math.floor(Math.log10(low)); d <= Math.log10(high); d++) for (const m of all) { const v = m * 10 ** d; if (v >= low * 0.999 && v <= high * 1.001) out.push(v); } return out.length > 1 ? out : steps(low, high); };

function plot(title, xName, yName, series, options = {}) {
  series = series.filter(s => s.points.length > (options.line ? 1 : 0));
  if (!series.length) return;
  const box = el("div", undefined, options.parent ?? $("plots")); el("h2", title, box);
  const legend = el("div", undefined, box); legend.className = "legend";
  const holder = el("div", undefined, box); const hidden = new Set();
  const draw = () => {
    const W = Math.round(Math.max(320, Math.min(1000, holder.clientWidth || 1000))), H = 320, L = 64, R = 30, T = 14, B = 40, ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg"); svg.setAttribute("viewBox", `0 0 ${W} ${H}`); svg.setAttribute("role", "img"); svg.setAttribute("aria-label", title);
    const add = (name, attributes, text) => { const e = document.createElementNS(ns, name); for (const k in attributes) e.setAttribute(k, attributes[k]); if (text !== undefined) e.textContent = text; svg.append(e); return e; };
    const shown = series.filter((_, i) => !hidden.has(i)); const all = shown.flatMap(s => s.points);
    const fx = options.logX ? Math.log10 : v => v, gx = options.logX ? v => 10 ** v : v => v;
    const fy = options.logY ? v => Math.log10(Math.max(v, 1e-6)) : v => v, gy = options.logY ? v => 10 ** v : v => v;
    const xs = all.map(p => fx(p[0])), ys = all.map(p => fy(p[1]));
    let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = options.logY ? Math.min(...ys) : 0, y1 = Math.max(...ys) * (options.logY ? 1 : 1.06);
    if (!(x1 > x0)) { x0 -= 0.5; x1 += 0.5; } if (!(y1 > y0)) y1 = y0 + 1;
    const X = v => L + (fx(v) - x0) / (x1 - x0) * (W - L - R), Y = v => H - B - (fy(v) - y0) / (y1 - y0) * (H - T - B);
    for (const y of (options.logY ? decades : steps)(gy(y0), gy(y1))) {
      add("line", { x1: L, x2: W - R, y1: Y(y), y2: Y(y), stroke: "var(--line)" }); add("text", { x: L - 8, y: Y(y) + 4, "text-anchor": "end" }, round(y));
    }
    let free = -Infinity;
    for (const x of options.xTicks ? options.xTicks.filter(x => fx(x) >= x0 && fx(x) <= x1) : steps(gx(x0), gx(x1))) {
      if (X(x) < free) continue; free = X(x) + 46;
      add("text", { x: X(x), y: H - B + 18, "text-anchor": "middle" }, options.xLabel ? options.xLabel(x) : round(x));
    }
    add("text", { x: (L + W) / 2, y: H - 4, "text-anchor": "middle" }, xName); add("text", { x: 14, y: H / 2, transform: `rotate(-90 14 ${H / 2})`, "text-anchor": "middle" }, yName);
    series.forEach((s, i) => { if (hidden.has(i)) return;
      add("polyline", { fill: "none", stroke: colours[i % colours.length], "stroke-width": 2, points: s.points.map(p => `${X(p[0]).toFixed(1)},${Y(p[1]).toFixed(1)}`).join(" ") });
      if (s.points.length < 60) for (const p of s.points) add("circle", { cx: X(p[0]), cy: Y(p[1]), r: 3, fill: colours[i % colours.length] }); });
    const cursor = add("line", { y1: T, y2: H - B, stroke: "var(--dim)", "stroke-dasharray": "3 3", visibility: "hidden" });
    svg.addEventListener("mousemove", event => {
      const r = svg.getBoundingClientRect(), px = (event.clientX - r.left) / r.width * W; const lines = []; let at = null;
      series.forEach((s, i) => { if (hidden.has(i)) return; let best = s.points[0]; for (const p of s.points) if (Math.abs(X(p[0]) - px) < Math.abs(X(best[0]) - px)) best = p; at = at ?? best[0]; lines.push(`${s.name}: ${short(best[1])}`); });
      if (at === null) return;
      cursor.setAttribute("x1", X(at)); cursor.setAttribute("x2", X(at)); cursor.setAttribute("visibility", "visible");
      const tip = $("tip"); tip.textContent = (options.xLabel ? options.xLabel(at) : short(at)) + " " + xName + "\n" + lines.join("\n"); tip.style.display = "block"; tip.style.left = Math.min(event.clientX + 14, innerWidth - 240) + "px"; tip.style.top = event.clientY + 14 + "px"; });
    svg.addEventListener("mouseleave", () => { $("tip").style.display = "none"; cursor.setAttribute("visibility", "hidden"); });
    holder.replaceChildren(svg);
  };
  series.forEach((s, i) => { const label = el("label", undefined, legend); const check = el("input", undefined, label); check.type = "checkbox"; check.checked = true;
    const mark = el("i", undefined, label); mark.style.background = colours[i % colours.length]; label.append(s.name);
    check.addEventListener("change", () => { if (check.checked) hidden.delete(i); else if (hidden.size < series.length - 1) hidden.add(i); else check.checked = true; draw(); }); });
  draw(); addEventListener("resize", draw);
}
