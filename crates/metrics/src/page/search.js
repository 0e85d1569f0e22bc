// The tab of indexes: what each is, and the documents that a query finds.
const INDEX_HEADS = [["index", "t"], ["of", ""], ["prefixes", "t"], ["fields", "t"], ["documents", "n"], ["memory", "n"], ["indexed", "n"], ["failures", "n"]];
// The query that is shown; answers to an older one are dropped.
let found_ = null, indexes_ = [];

function indexRow(index) {
  if (index.error) return [index.name, "", "", index.error];
  const more = index.field_count > index.fields.length ? `\n… ${whole(index.field_count)} fields` : "";
  const failures = perhaps(index.failures, whole) + (index.failures && index.last_error ? `, the last: ${index.last_error}` : "");
  return [index.name, String(index.type ?? "").toLowerCase(), index.prefixes.map((prefix) => prefix || '""').join("\n"), index.fields.join("\n") + more,
    perhaps(index.documents, whole), perhaps(index.bytes, bytes), perhaps(index.indexed, (share) => `${Math.floor(share * 100)} %`), failures];
}
async function showIndexes() {
  const { total, indexes } = await ask("/api/indexes");
  const select = $("query").elements.index, chosen = select.value || wanted.get("index");
  indexes_ = indexes;
  $("index-count").textContent = `Indexes: ${whole(total)}${total > indexes.length ? `, of which ${whole(indexes.length)} are shown` : ""}`;
  fill($("indexes"), INDEX_HEADS, indexes.map(indexRow), { pick: (at) => {
    select.value = indexes_[at].id;
    guarded("search", findDocuments)();
  }, empty: "No indexes" });
  select.replaceChildren(...indexes.map((index) => new Option(index.name, index.id)));
  if (indexes.some((index) => index.id === chosen)) select.value = chosen;
}
async function moreDocuments(of = found_) {
  const { index, query } = of;
  const answer = await ask("/api/search?" + new URLSearchParams({ index, query, offset: of.rows.length }));
  if (found_ !== of) return;
  // Each answer has columns of its own.
  const places = answer.columns.map((name) => {
    if (!of.columns.includes(name)) of.columns.push(name);
    return of.columns.indexOf(name);
  });
  for (const row of answer.rows) {
    const cells = [];
    row.cells.forEach((value, at) => (cells[places[at]] = value));
    of.rows.push({ ...row, cells });
  }
  of.isCut ||= answer.cut;
  $("matched").textContent = `${counted(answer.total, "document")}, ${whole(of.rows.length)} shown${of.isCut ? "; some have further fields" : ""}`;
  $("further").disabled = !answer.rows.length || of.rows.length >= answer.total;
  fill($("documents"), [["key", "t"], ...of.columns.map((name) => [name, "v"])],
    of.rows.map((row) => [row.name, ...of.columns.map((_, at) => cell(row.cells[at] ?? null))]), { pick: (at) => openDocument(of.rows[at].id), empty: "No documents" });
}
async function findDocuments() {
  const form = new FormData($("query"));
  found_ = { index: form.get("index") || "", query: form.get("query") || "*", columns: [], rows: [], isCut: false };
  $("further").disabled = true;
  $("matched").textContent = "";
  $("documents").replaceChildren();
  link();
  await moreDocuments();
}
// The key itself is in the tab of keys; indexes are of database 0.
function openDocument(id) {
  $("find").elements.db.value = 0;
  wanted.set("key", id);
  open("keys");
}
async function openSearch() {
  await showIndexes();
  const query = wanted.get("query");
  wanted.delete("query");
  if (query) {
    $("query").elements.query.value = query;
    await findDocuments();
  }
}
$("query").onsubmit = guarded("search", findDocuments);
$("further").onclick = guarded("search", () => moreDocuments());
$("refresh-indexes").onclick = guarded("search", showIndexes);
