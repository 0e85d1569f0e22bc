// The tab of keys: the search, a key's value, the hot keys, the console.
const FOUND_AT_ONCE = 100, SEARCH_MS = 5000, BIGGEST_OF = 10000;
const KEY_HEADS = [["key", "t"], ["type", ""], ["memory", "n"], ["expires", "n"]];
const keyRow = (key) => [key.name, cell(key.type), perhaps(key.bytes, bytes), key.ttl >= 0 ? ago(key.ttl / 1000) : ""];
// The search that is shown; an older one that is still under way ends.
let search = null, picked = null;

function asked() {
  const form = new FormData($("find"));
  return { db: form.get("db"), match: form.get("match"), type: form.get("type") };
}
function addType(name) {
  const select = $("find").elements.type;
  if (typeof name === "string" && ![...select.options].some((option) => option.value === name)) select.append(new Option(name, name));
}
async function step(of, count) {
  const found = await ask("/api/keys?" + new URLSearchParams({ ...of.query, cursor: of.cursor, count }));
  for (const key of found.keys) {
    addType(key.type);
    // SCAN may find a key twice.
    if (!of.ids.has(key.id)) of.keys.push(key);
    of.ids.add(key.id);
  }
  of.cursor = found.cursor;
  of.looked += count;
  return search === of && found.cursor !== "0";
}
function begin() {
  closeKey();
  search = { query: asked(), cursor: "0", keys: [], ids: new Set(), looked: 0 };
  link();
  return search;
}
function list(of) {
  fill($("key-table"), KEY_HEADS, of.keys.map(keyRow), { pick: (at, line) => guarded("keys", () => showKey(of.keys[at].id, line))(), empty: "No keys" });
}
function total(db) {
  return Number(/keys=(\d+)/.exec(last?.info.keyspace?.[`db${Number(db)}`] || "")?.[1] || 0);
}
// SCAN may find nothing for long where few keys match: it goes on until there is a screenful, for some seconds.
async function findMore(of = search) {
  const until = of.keys.length + FOUND_AT_ONCE, end = performance.now() + SEARCH_MS;
  const count = of.query.match || of.query.type ? 1000 : FOUND_AT_ONCE;
  let more = true;
  while (more && of.keys.length < until && performance.now() < end) {
    more = await step(of, count);
    if (search !== of) return;
    const all = Math.max(total(of.query.db), of.keys.length);
    $("found").textContent = counted(of.keys.length, "key") + (more ? ` so far, ${whole(Math.min(of.looked, all))} of ${whole(all)} looked at` : "");
  }
  $("more").disabled = !more;
  list(of);
}
const findFirst = () => findMore(begin());
async function findBiggest() {
  const of = begin();
  let more = true;
  while (more && of.keys.length < BIGGEST_OF) {
    more = await step(of, 500);
    if (search !== of) return;
    $("found").textContent = `looked at ${counted(of.keys.length, "key")}`;
  }
  const size = (key) => (typeof key.bytes === "number" ? key.bytes : 0);
  of.keys.sort((a, b) => size(b) - size(a));
  $("found").textContent = `the biggest of ${counted(of.keys.length, "key")}${more ? ", not all" : ""}`;
  of.keys.length = Math.min(of.keys.length, 50);
  $("more").disabled = true;
  list(of);
}
function closeKey() {
  const focus = $("shown-key").contains(document.activeElement);
  picked?.line?.removeAttribute("aria-current");
  if (focus) picked?.line?.querySelector("button")?.focus({ preventScroll: true });
  picked = null;
  $("shown-key").hidden = true;
  $("browser").className = "";
}
async function showKey(id, line) {
  const { db } = asked();
  const key = await ask("/api/key?" + new URLSearchParams({ db, id }));
  closeKey();
  picked = { id, line };
  line?.setAttribute("aria-current", "true");
  $("browser").className = "open";
  $("shown-key").hidden = false;
  $("key-name").textContent = key.name;
  const isGone = key.type === "none", size = key.unit === "bytes" ? perhaps(key.length, (n) => `${bytes(n)} long`) : perhaps(key.length, (n) => `${whole(n)} ${n === 1 ? key.unit.replace(/ies$/, "y").replace(/s$/, "") : key.unit}`);
  $("key-facts").textContent = isGone ? "The key is gone." : [key.type, typeof key.encoding === "string" && key.encoding, key.unit && size,
    `${perhaps(key.bytes, bytes)} of memory`, key.ttl >= 0 ? `expires in ${ago(key.ttl / 1000)}` : "does not expire"].filter(Boolean).join(" · ");
  const rows = key.rows || [];
  $("key-rows").hidden = !key.columns;
  fill($("key-rows"), (key.columns || []).map((name) => [name, "v"]), rows.map((row) => row.map(cell)), { empty: "No elements" });
  $("key-text").textContent = key.text ?? "";
  const notes = [];
  if (key.error) notes.push(key.error);
  if (key.columns && key.columns[0] !== "property" && rows.length < key.length) notes.push(`${whole(rows.length)} of ${whole(key.length)} ${key.unit} are shown.`);
  if (key.text !== undefined && key.length > 8192) notes.push(`The first 8,192 of ${whole(key.length)} bytes are shown.`);
  if (key.cut) notes.push("The first 8,192 bytes are shown.");
  if (key.quoted) notes.push("It is no text: shown in redis-cli's quotes.");
  if (!isGone && !key.columns && key.text === undefined && !key.error) notes.push(`This page cannot show values of the type ${key.type}.`);
  $("key-note").textContent = notes.join(" ");
  $("key-actions").replaceChildren(...(ALLOWS_WRITES && !isGone ? [removal(db, id, key.name)] : []));
  $("shown-key").scrollTop = 0;
  $("shown-key").focus({ preventScroll: true });
  link();
}
function removal(db, id, name) {
  const remove = make("button", "Delete");
  remove.type = "button";
  remove.onclick = guarded("keys", async () => {
    if (!confirm(`Delete ${name}?`)) return;
    await run(db, ["UNLINK", { id }]);
    closeKey();
    search.keys = search.keys.filter((other) => other.id !== id);
    list(search);
  });
  return remove;
}
async function showHot() {
  const place = $("hot");
  try {
    const hot = await ask("/api/hotkeys");
    if (!hot) {
      place.replaceChildren(make("span", "Nothing is collected. HOTKEYS START METRICS 2 CPU NET begins.", "dim"));
      return;
    }
    const table = make("table");
    table.setAttribute("aria-label", "Hot keys");
    const rows = ["by-cpu-time-us", "by-net-bytes"].flatMap((name) => {
      const list = hot[name] || [], rows = [];
      for (let at = 0; at + 1 < list.length; at += 2) rows.push([list[at], name.replace("by-", ""), whole(list[at + 1])]);
      return rows;
    });
    fill(table, [["key", "t"], ["by", ""], ["amount", "n"]], rows, { empty: "No keys so far" });
    place.replaceChildren(table);
  } catch (why) {
    if (why instanceof Unreachable) throw why;
    place.replaceChildren(make("span", why.message, "dim"));
  }
}
// A command may change something: it is not sent again when the server is back.
async function run(db, command) {
  try {
    return await send(db, command);
  } catch (why) { throw new Error(why.message); }
}
function send(db, command) {
  return ask("/api/command", { method: "POST", headers: { "x-martlet": "page", "content-type": "application/json" }, body: JSON.stringify({ db: Number(db), command }) });
}
async function runTyped(event) {
  event.preventDefault();
  const place = document.querySelector("#console pre");
  try {
    const { reply } = await run(asked().db, words(new FormData(event.target).get("command")));
    place.textContent = typeof reply === "string" ? reply : JSON.stringify(reply, null, 1);
  } catch (why) { place.textContent = why.message; }
}
for (const name of TYPES) addType(name);
$("find").onsubmit = guarded("keys", findFirst);
$("more").onclick = guarded("keys", () => findMore());
$("biggest").onclick = guarded("keys", findBiggest);
$("close-key").onclick = () => { closeKey(); link(); };
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && picked) { closeKey(); link(); } });
$("console").hidden = !ALLOWS_WRITES;
document.querySelector("#console form").onsubmit = runTyped;
