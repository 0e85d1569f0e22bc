// Plots of the last minutes over time.
const KEPT_S = 180;
// Looks that are further apart are not joined by a line: nothing is known of the time between them.
const GAP_S = 15;

// Round steps of an axis that ends at or above the largest value; base is 1000 or 1024.
function steps(most, base) {
  if (!(most > 0)) return [0, 1];
  const raw = most / 3;
  let step = base ** Math.floor(Math.log(raw) / Math.log(base));
  // Below 1 there are no larger units to be whole multiples of.
  if (raw < 1) step = 10 ** Math.floor(Math.log10(raw));
  const start = step;
  for (const n of [1, 2, 5, 10, 20, 50, 100, 200, 500, base]) if ((step = n * start) >= raw * 0.999) break;
  const found = [0];
  while (found[found.length - 1] < most) found.push(found.length * step);
  return found;
}
function color(name) {
  const probe = color.probe ||= document.body.appendChild(make("span"));
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}
// Runs of points without a gap, each a list of [x, value].
function runs(points, at, x) {
  const found = [];
  let before = null;
  for (const point of points) {
    if (point[at] === null) { before = null; continue; }
    if (before === null || point[0] - before > GAP_S) found.push([]);
    found[found.length - 1].push([x(point[0]), point[at]]);
    before = point[0];
  }
  return found;
}
// Lines or, stacked, areas: points are [time, values…]; a value that is not known is null.
function plot(canvas, points, names, { stacked, format = short, base = 1000 } = {}) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const draw = canvas.getContext("2d");
  draw.scale(ratio, ratio);
  draw.font = "12px system-ui, sans-serif";
  if (stacked) points = points.map(([time, ...values]) => [time, ...values.map((_, at) => values.slice(0, at + 1).reduce((a, b) => a + b, 0))]);
  const now = points.length ? points[points.length - 1][0] : 0;
  const axis = steps(Math.max(0, ...points.flatMap((point) => point.slice(1))), base), most = axis[axis.length - 1];
  const left = Math.max(...axis.map((value) => draw.measureText(format(value)).width)) + 10, right = width - 6, bottom = height - 18, top = 8;
  const x = (time) => right - (right - left) * (now - time) / KEPT_S;
  const y = (value) => bottom - (bottom - top) * value / most;
  const paint = (name) => { draw.fillStyle = draw.strokeStyle = color(name); };
  for (const value of axis) {
    paint("--line");
    draw.fillRect(left, Math.round(y(value)), right - left, 1);
    paint("--dim");
    draw.textAlign = "right";
    draw.fillText(format(value), left - 6, y(value) + 4);
  }
  for (let minute = 0; minute * 60 <= KEPT_S; minute++) {
    const at = x(now - minute * 60);
    paint("--line");
    draw.fillRect(Math.round(at), top, 1, bottom - top);
    paint("--dim");
    draw.textAlign = minute === 0 ? "right" : minute * 60 === KEPT_S ? "left" : "center";
    draw.fillText(minute ? `${minute} min ago` : "now", at, height - 4);
  }
  names.map(([, name], at) => ({ name, at: at + 1 })).reverse().forEach(({ name, at }) => {
    paint(name);
    for (const run of runs(points, at, x)) {
      draw.beginPath();
      run.forEach(([px, value], i) => (i ? draw.lineTo(px, y(value)) : draw.moveTo(px, y(value))));
      if (stacked) {
        draw.lineTo(run[run.length - 1][0], bottom);
        draw.lineTo(run[0][0], bottom);
        draw.fill();
        draw.lineWidth = 1;
      } else {
        draw.lineWidth = 1.75;
      }
      // One point is a dot.
      if (run.length === 1) draw.fillRect(run[0][0] - 1, y(run[0][1]) - 1, 2, 2);
      draw.stroke();
    }
  });
}
function legend(id, names, values) {
  $(id).replaceChildren(...names.map(([name, color], at) => {
    const entry = make("span");
    const dot = make("i");
    dot.style.background = `var(${color})`;
    entry.append(dot, `${name} ${values[at]}`);
    return entry;
  }));
}
// What the plot shows, in words.
function describe(canvas, title, names, values) {
  canvas.setAttribute("aria-label", `${title}, last ${KEPT_S / 60} minutes; now ${names.map(([name], at) => `${name} ${values[at]}`.trim()).join(", ")}`);
}
// Of what happened between two looks: the end of the least bucket that so large a share of the calls does not exceed;
// null if nothing happened.
function percentile(now, then, share) {
  const old = new Map(then);
  const counts = now.map(([most, count]) => [most, count - (old.get(most) || 0)]).filter(([, count]) => count > 0);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  let below = 0;
  for (const [most, count] of counts) if ((below += count) >= total * share) return most;
  return null;
}
