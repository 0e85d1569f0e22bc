// The page: looks at the server each second, and shows one tab.
const PERIOD_MS = 1000, HIDDEN_PERIOD_MS = 10000, REFRESH_MS = 5000;
// An answer that takes longer is given up; figures that are older are no longer the server's.
const PATIENCE_MS = 10000, STALE_MS = 3000;
const TABS = { overview: "Overview", commands: "Commands", keys: "Keys", search: "Search", slow: "Slow log", clients: "Clients", server: "Server" };
const history_ = { ops: [], latency: [], memory: [], network: [] };
let tab = "overview", before = null, last = null, lastAt = performance.now(), failure = "", sawTwice;
// That there were two looks, of which the second tells of what happened between them.
const seen = new Promise((resolve) => (sawTwice = resolve));

// There is no connection: the next look will say so, or has.
class Unreachable extends Error {}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { signal: AbortSignal.timeout(PATIENCE_MS), ...options });
  } catch (why) {
    if (why.name === "TimeoutError") throw new Error(`${location.host} does not answer.`);
    throw new Unreachable(`${location.host} cannot be reached: the server has ended, or the network is interrupted.`);
  }
  const text = await response.text();
  if (!response.ok) {
    let why = text.trim();
    try { why = JSON.parse(text).error || why; } catch { /* it is no JSON */ }
    throw new Error(why || `${location.host} answers with status ${response.status}.`);
  }
  return JSON.parse(text);
}
// An error of some part of the page stays until that part succeeds, it is dismissed, or another tab is opened.
let problemOf = null;
// What could not be asked, and is asked again once the server is back.
let missed = null;
function report(part, message) {
  problemOf = part;
  $("problem").hidden = !message;
  $("problem").firstElementChild.textContent = message;
}
function guarded(part, work) {
  return async function again(event) {
    event?.preventDefault?.();
    try {
      await work();
      if (problemOf === part) report(null, "");
    } catch (why) {
      if (why instanceof Unreachable) missed = again;
      else report(part, why.message);
    }
  };
}
// Says when the figures are no longer the server's.
function watch() {
  const age = performance.now() - lastAt, isStale = !document.hidden && (failure !== "" || age > STALE_MS);
  document.body.classList.toggle("stale", isStale && last !== null);
  const figures = last ? ` The figures are ${ago(age / 1000)} old.` : "";
  const text = isStale ? (failure || "The server does not answer.") + figures : "";
  $("connection").hidden = !text;
  if ($("connection").textContent !== text) $("connection").textContent = text;
}
let timer = 0, isLooking = false;
async function look() {
  if (isLooking) return;
  clearTimeout(timer);
  isLooking = true;
  try {
    const now = await ask("/api/live");
    now.time = Number(now.info.server?.server_time_usec) / 1e6 || Date.now() / 1e3;
    [before, last] = [last, now];
    [failure, lastAt] = ["", performance.now()];
    show();
    if (before) sawTwice();
    const work = missed;
    missed = null;
    work?.();
  } catch (why) {
    failure = why.message;
  }
  isLooking = false;
  watch();
  timer = setTimeout(look, document.hidden ? HIDDEN_PERIOD_MS : PERIOD_MS);
}
function rate(section, field) {
  if (!before) return null;
  const gone = last.time - before.time;
  const delta = Number(last.info[section]?.[field]) - Number(before.info[section]?.[field]);
  // A server that has begun again counts from 0.
  return gone > 0 && delta >= 0 ? delta / gone : null;
}
const PERCENTILES = [["p50", "--a", 0.5], ["p99", "--b", 0.99], ["p99.9", "--d", 0.999]];
const NETWORK = [["in", "--a"], ["out", "--b"]];
const MEMORY = [["data", "--a"], ["clients", "--b"], ["replication", "--c"], ["journal", "--d"], ["rest", "--e"]];
const atMost = (usec) => perhaps(usec, (usec) => `≤ ${duration(usec)}`);

function budget(memory) {
  const n = (name) => Number(memory[name] || 0);
  const data = n("used_memory_dataset"), clients = n("mem_clients_normal") + n("mem_clients_slaves");
  const replication = n("mem_total_replication_buffers") || n("mem_replication_backlog"), journal = n("mem_aof_buffer");
  return [data, clients, replication, journal, Math.max(0, n("used_memory") - data - clients - replication - journal)];
}
function push(list, point) {
  list.push(point);
  while (list.length && point[0] - list[0][0] > KEPT_S) list.shift();
}
function show() {
  const { server = {}, clients = {}, memory = {}, stats = {}, replication = {}, keyspace = {} } = last.info;
  $("about").textContent = `${server.server_name || "redis"} ${server.martlet_version || server.redis_version} · ` +
    `${server.redis_mode} · ${replication.role} · port ${server.tcp_port} · up ${ago(Number(server.uptime_in_seconds))}`;
  const ops = rate("stats", "total_commands_processed");
  const latency = PERCENTILES.map(([, , share]) => (before ? percentile(last.latency, before.latency, share) : null));
  const network = [rate("stats", "total_net_input_bytes"), rate("stats", "total_net_output_bytes")];
  const parts = budget(memory);
  if (last.pushed !== true) {
    last.pushed = true;
    push(history_.ops, [last.time, ops]);
    push(history_.latency, [last.time, ...latency]);
    push(history_.network, [last.time, ...network]);
    push(history_.memory, [last.time, ...parts]);
  }
  const keys = Object.values(keyspace).reduce((sum, value) => sum + Number(/keys=(\d+)/.exec(value)?.[1] || 0), 0);
  const hits = rate("stats", "keyspace_hits"), misses = rate("stats", "keyspace_misses");
  const cards = [
    ["requests/s", perhaps(ops, short)], ["p99", atMost(latency[1])], ["memory", bytes(Number(memory.used_memory || 0))],
    ["limit", Number(memory.maxmemory) ? bytes(Number(memory.maxmemory)) : "none"], ["keys", whole(keys)],
    ["clients", whole(clients.connected_clients || 0)], ["hit rate", hits + misses ? `${(100 * hits / (hits + misses)).toFixed(1)} %` : "–"],
    ["evicted", whole(stats.evicted_keys || 0)], ["expired", whole(stats.expired_keys || 0)],
  ];
  $("cards").replaceChildren(...cards.map(([name, value]) => {
    const card = make("div", undefined, "card");
    card.append(make("b", value), make("span", name, "dim"));
    return card;
  }));
  if (tab === "overview") showPlots(ops, latency, parts, network);
  if (tab === "commands") showCommands();
  if (tab === "server") showServer();
}
function showPlots(ops, latency, parts, network) {
  const one = (name, title, names, values, options) => {
    plot($(`plot-${name}`), history_[name], names, options);
    describe($(`plot-${name}`), title, names, values);
    if (names.length > 1) legend(`legend-${name}`, names, values);
  };
  one("ops", "Requests a second", [["", "--a"]], [perhaps(ops, short)]);
  one("latency", "Latency of commands", PERCENTILES, latency.map(atMost), { format: duration });
  one("memory", "Memory", MEMORY, parts.map(bytes), { stacked: true, format: bytes, base: 1024 });
  one("network", "Network", NETWORK, network.map((value) => perhaps(value, (value) => `${bytes(value)}/s`)), { format: bytes, base: 1024 });
}
function fields(value) {
  return Object.fromEntries(value.split(",").map((part) => part.split("=")));
}
function showCommands() {
  const { commandstats = {}, latencystats = {} } = last.info;
  const rows = Object.entries(commandstats).map(([name, value]) => {
    const command = name.replace("cmdstat_", ""), stat = fields(value);
    const percentiles = fields(latencystats[`latency_percentiles_usec_${command}`] || "");
    const then = before?.info.commandstats?.[name];
    const recent = before ? (stat.calls - (then ? fields(then).calls : 0)) / Math.max(last.time - before.time, 1e-3) : null;
    return [command, perhaps(recent, (n) => short(Math.max(0, n))), whole(stat.calls), stat.usec_per_call, percentiles.p50, percentiles.p99, percentiles["p99.9"], stat.failed_calls, stat.rejected_calls];
  }).sort((a, b) => Number(b[2].replaceAll(",", "")) - Number(a[2].replaceAll(",", "")));
  fill(document.querySelector("#commands table"), [["command", "t"], ["a second", "n"], ["calls", "n"], ["µs each", "n"], ["p50 µs", "n"], ["p99 µs", "n"], ["p99.9 µs", "n"], ["failed", "n"], ["refused", "n"]], rows, { empty: "No command has run" });
}
function showServer() {
  const { persistence = {}, replication = {}, threads = {} } = last.info;
  const pairs = (id, section) => fill($(id), [["field", "t"], ["value", "t"]], Object.entries(section));
  pairs("persistence", persistence);
  pairs("replication", replication);
  pairs("threads", threads);
}
async function showBudget() {
  const stats = await ask("/api/memory");
  const rows = Object.entries(stats).filter(([, value]) => typeof value !== "object");
  fill($("budget"), [["field", "t"], ["value", "n"]], rows.map(([name, value]) => [name, memoryFigure(name, value)]));
}
async function showCluster() {
  $("slots").hidden = last?.info.cluster?.cluster_enabled !== "1";
  if ($("slots").hidden) return;
  const { nodes, state } = await ask("/api/cluster");
  document.querySelector("#slots h2").textContent = `Cluster: ${state.cluster_state}, ${state.cluster_slots_assigned} slots assigned`;
  fill(document.querySelector("#slots table"), [["node", "t"], ["address", "t"], ["flags", "t"], ["link", "t"], ["slots", "t"]],
    nodes.map((node) => [node.id.slice(0, 8), node.address, node.flags, node.link, node.slots.join(" ")]));
}
async function showSlow() {
  const entries = await ask("/api/slowlog");
  fill(document.querySelector("#slow table"), [["when", ""], ["took", "n"], ["command", "t"], ["client", "t"]], entries.map((entry) => [
    new Date(entry.time * 1000).toLocaleString(), perhaps(entry.usec, duration), (entry.command || []).join(" "), `${entry.client || ""} ${entry.name || ""}`]), { empty: "No command was slow" });
}
async function showClients() {
  const { total, clients } = await ask("/api/clients");
  document.querySelector("#clients h2").textContent = `Clients: ${total}${total > clients.length ? `, of which ${clients.length} are shown` : ""}`;
  fill(document.querySelector("#clients table"), [["address", "t"], ["name", "t"], ["user", "t"], ["db", "n"], ["age", "n"], ["idle", "n"], ["memory", "n"], ["last command", "t"], ["library", "t"]], clients.map((client) => [
    client.addr, client.name, client.user, client.db, ago(client.age), ago(client.idle), perhaps(Number(client["tot-mem"] || 0), bytes), client.cmd, `${client["lib-name"] || ""} ${client["lib-ver"] || ""}`]));
}
const OPENED = {
  slow: showSlow, clients: showClients, keys: () => Promise.all([showHot(), openKeys()]), search: openSearch,
  server: () => Promise.all([showBudget(), seen.then(showCluster)]),
};
const REFRESHED = { slow: showSlow, clients: showClients, server: () => Promise.all([showBudget(), showCluster()]) };
// The key that the address names is opened once.
async function openKeys() {
  const id = wanted.get("key");
  wanted.delete("key");
  if (!search?.looked) await findFirst();
  if (id) await showKey(id);
}
// The address says what is shown: the tab, of the keys the search and the key, of an index the query.
function link() {
  const shown = tab === "keys" && search ? { ...search.query, key: picked?.id } : tab === "search" && found_ ? { index: found_.index, query: found_.query } : {};
  const query = new URLSearchParams(Object.entries(shown).filter(([name, value]) => value && !(name === "db" && value === "0")));
  history.replaceState(null, "", "#/" + tab + (String(query) && `?${query}`));
}
// A test that looks at the page learns here what it shows, and whether it is wider than the screen.
function settled(name) {
  document.body.dataset.shown = name;
  document.body.dataset.overflows = document.documentElement.scrollWidth > document.documentElement.clientWidth;
}
function open(name) {
  tab = name;
  if (problemOf) report(null, "");
  missed = null;
  for (const other of Object.keys(TABS)) $(other).hidden = other !== name;
  for (const button of $("tabs").children) {
    button.setAttribute("aria-selected", String(button.dataset.tab === name));
    button.tabIndex = button.dataset.tab === name ? 0 : -1;
  }
  link();
  Promise.all([seen, OPENED[name] && guarded(name, OPENED[name])()]).then(() => settled(name));
  if (last) show();
}
for (const [name, title] of Object.entries(TABS)) {
  const button = make("button", title);
  Object.assign(button, { id: `tab-${name}`, type: "button", role: "tab", onclick: () => open(name) });
  button.dataset.tab = name;
  button.setAttribute("aria-controls", name);
  $("tabs").append(button);
}
$("tabs").onkeydown = (event) => {
  const names = Object.keys(TABS), at = names.indexOf(tab);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  open(names[to % names.length]);
  $(`tab-${tab}`).focus();
};
$("problem").querySelector("button").onclick = () => report(null, "");
window.addEventListener("resize", () => last && show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => last && show());
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
setInterval(() => REFRESHED[tab] && !document.hidden && guarded(tab, REFRESHED[tab])(), REFRESH_MS);
setInterval(watch, PERIOD_MS / 2);
const [first, rest = ""] = location.hash.slice(2).split("?"), wanted = new URLSearchParams(rest);
for (const name of ["match", "db", "type"]) {
  if (wanted.get(name)) {
    if (name === "type") addType(wanted.get(name));
    $("find").elements[name].value = wanted.get(name);
  }
}
open(first in TABS ? first : "overview");
look();
