// Figures and elements as text, and tables.
const $ = (id) => document.getElementById(id);

function make(tag, text, kind) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  return element;
}
// Columns are [title, kind]: n a number, t a text, v a value. A row that can be picked has a button with its first cell.
function fill(table, heads, rows, { pick, empty = "Nothing" } = {}) {
  const head = make("tr");
  for (const [text, kind] of heads) {
    const cell = make("th", text, kind === "n" ? "n" : "");
    cell.scope = "col";
    head.append(cell);
  }
  const lines = rows.map((row, at) => {
    const line = make("tr", undefined, pick ? "pick" : "");
    row.forEach((cell, column) => line.append(make("td", pick && column === 0 ? undefined : cell ?? "", heads[column][1])));
    if (pick) {
      const button = make("button", row[0]);
      button.type = "button";
      line.firstChild.append(button);
      line.onclick = () => pick(at, line);
    }
    return line;
  });
  if (!lines.length) {
    const cell = make("td", empty, "dim");
    cell.colSpan = heads.length;
    lines.push(make("tr"));
    lines[0].append(cell);
  }
  table.replaceChildren(make("thead"), make("tbody"));
  table.tHead.append(head);
  table.tBodies[0].append(...lines);
}
const whole = (n) => Math.round(n).toLocaleString("en");
const counted = (n, one) => `${whole(n)} ${one}${n === 1 ? "" : "s"}`;
// Three digits at most, and the letter of the unit.
function scaled(n, base, units) {
  let at = 0;
  while (Math.abs(n) >= base && at < units.length - 1) { n /= base; at++; }
  const digits = Math.abs(n) < 10 && n % 1 ? (Math.abs(n) < 1 ? 2 : 1) : Math.abs(n) < 100 && n % 1 && at ? 1 : 0;
  return [n.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""), units[at]];
}
const short = (n) => scaled(n, 1000, ["", "k", "M", "G", "T"]).join("");
const bytes = (n) => scaled(n, 1024, ["B", "KB", "MB", "GB", "TB"]).join(" ");
// Microseconds, rounded up: what is shown is still a bound.
const duration = (usec) => (usec < 1000 ? `${Math.ceil(usec)} µs` : usec < 1e6 ? `${Math.ceil(usec / 100) / 10} ms` : `${Math.ceil(usec / 1e5) / 10} s`);
const perhaps = (n, form) => (typeof n === "number" ? form(n) : "–");
function ago(seconds) {
  const [d, h, m] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  return d ? `${d} d ${h % 24} h` : h ? `${h} h ${m % 60} min` : m ? `${m} min` : `${Math.floor(seconds)} s`;
}
// MEMORY STATS: whole numbers are bytes or counts, numbers with a fraction ratios or percentages.
function memoryFigure(name, value) {
  if (typeof value === "number") return /count$/.test(name) ? whole(value) : bytes(value);
  const number = Number(value);
  if (value === "" || isNaN(number)) return value;
  return /percentage$/.test(name) ? `${number.toFixed(1)} %` : number.toFixed(2);
}
// A part of an element; fields and values of a stream's entry in pairs.
function cell(value) {
  if (!Array.isArray(value)) return value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const lines = [];
  for (let at = 0; at < value.length; at += 2) lines.push(at + 1 < value.length ? `${cell(value[at])}: ${cell(value[at + 1])}` : cell(value[at]));
  return lines.join("\n");
}
function base64url(data) {
  return btoa(String.fromCharCode(...data)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
// Words as redis-cli splits them: in double quotes with escapes, or in single ones. A word with bytes that are no text is
// { id }, their base64.
function words(line) {
  const ESCAPES = { n: 10, r: 13, t: 9, a: 7, b: 8 }, found = [], encoder = new TextEncoder();
  let at = 0;
  while (true) {
    while (/\s/.test(line[at] || "")) at++;
    if (at >= line.length) return found;
    const quote = line[at] === '"' || line[at] === "'" ? line[at++] : "", data = [];
    while (at < line.length && (quote ? line[at] !== quote : !/\s/.test(line[at]))) {
      const hex = quote === '"' && /^\\x[0-9a-fA-F]{2}/.exec(line.slice(at, at + 4));
      if (hex) {
        data.push(parseInt(hex[0].slice(2), 16));
        at += 4;
      } else if (line[at] === "\\" && at + 1 < line.length && (quote === '"' || (quote && line[at + 1] === quote))) {
        const escape = quote === '"' ? ESCAPES[line[at + 1]] : undefined;
        data.push(...(escape === undefined ? encoder.encode(line[at + 1]) : [escape]));
        at += 2;
      } else {
        const character = String.fromCodePoint(line.codePointAt(at));
        data.push(...encoder.encode(character));
        at += character.length;
      }
    }
    if (quote && (line[at++] !== quote || /\S/.test(line[at] || ""))) throw new Error("A quote does not end, or is followed by more than a space.");
    found.push({ id: base64url(data) });
  }
}
