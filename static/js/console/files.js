/**
 * Files: exports as downloads, and new sales from a table, which is checked first.
 */
import { get, postFile } from '../api.js';
import { newKey } from '../buy.js';
import { fieldInstant, reason, reasonOfKeyed, showResult } from '../desk.js';
import { byId, el, setText } from '../dom.js';
import { text } from '../strings.js';

const FILE_BYTES_MAX = 1 << 20;
const TABLES = ['sales', 'orders', 'movements'];
let checked = null;
let busy = false;

/**
 * Wire both forms once.
 * @param {() => number} chosenSale the sale that is shown, or 0
 * @param {(item: object) => void} onCreated called for each new sale
 */
export function startFiles(chosenSale, onCreated) {
  for (const table of TABLES) {
    const link = byId(`export-${table}`);
    // Set at the last moment, so that the address fits the choices on the page.
    for (const moment of ['focus', 'pointerenter', 'click']) {
      link.addEventListener(moment, () => (link.href = exportAddress(table, chosenSale())));
    }
  }
  byId('import-form').addEventListener('submit', (event) => {
    event.preventDefault();
    check();
  });
  for (const field of ['import-file', 'import-charset']) byId(field).addEventListener('change', () => forget());
  byId('import-create').addEventListener('click', () => create(onCreated));
}

function exportAddress(table, sale) {
  const [format, mark] = byId('export-format').value.split('-');
  const query = new URLSearchParams({ table, format });
  if (mark !== undefined) query.set('bom', 'true');
  if (byId('export-scope').value === 'chosen' && sale > 0) query.set('item', String(sale));
  for (const end of ['from', 'until']) {
    const instant = fieldInstant(byId(`export-${end}`).value);
    if (instant !== '') query.set(end, instant);
  }
  return `/api/admin/export?${query}`;
}

/** What was checked is not what is chosen now. */
function forget() {
  checked = null;
  byId('import-create').hidden = true;
  byId('import-faults').replaceChildren();
  say('');
}

async function check() {
  forget();
  const [file] = byId('import-file').files;
  if (file === undefined) return say(text('files.noFile'), 'bad');
  if (file.size > FILE_BYTES_MAX) return say(text('files.tooLarge'), 'bad');
  const charset = byId('import-charset').value;
  const kind = charset === '' ? 'text/csv' : `text/csv; charset=${charset}`;
  const table = { kind, content: new Blob([await file.arrayBuffer()]), key: newKey() };
  await ask(async () => {
    const { sales, faults } = await postFile('/api/admin/import?dry_run=true', kind, table.content);
    // The answer is about the table that was chosen then.
    if (byId('import-file').files[0] !== file || byId('import-charset').value !== charset) return;
    if (faults.length > 0) return showFaults(faults);
    checked = table;
    say(text('files.right', { count: sales }));
    setText(byId('import-create'), text('files.create', { count: sales }));
    byId('import-create').hidden = false;
  });
}

async function create(onCreated) {
  if (checked === null) return;
  const table = checked;
  await ask(async () => {
    // Pressed again after an answer that was lost, the same key creates nothing twice: `reasonOfKeyed` says so.
    const { items } = await postFile('/api/admin/import', table.kind, table.content, { 'Idempotency-Key': table.key });
    // Another table that was chosen meanwhile stays.
    if (checked === table) {
      forget();
      byId('import-form').reset();
    }
    say(text('files.created', { count: items.length }));
    for (const id of items) {
      // What cannot be read now comes with the list of sales.
      const item = await get(`/api/items/${id}`).catch(() => null);
      if (item !== null) onCreated(item);
    }
  }, reasonOfKeyed);
}

async function ask(question, reasonOf = reason) {
  if (busy) return;
  busy = true;
  try {
    await question();
  } catch (error) {
    if (error.faults?.length > 0) showFaults(error.faults);
    else say(reasonOf(error), 'bad');
  } finally {
    busy = false;
  }
}

function showFaults(faults) {
  say(text('files.wrong', { count: faults.length }), 'bad');
  const lines = faults.map(({ line, cell, column, read, detail }) => {
    const place = column === null ? text('files.line', { line }) : text('files.lineColumn', { line, column });
    const where = cell === null ? place : `${place} (${cell})`;
    const said = read === null ? detail : text('files.read', { read, detail });
    return el('li', {}, el('strong', { class: 'digits', text: where }), el('span', { text: said }));
  });
  byId('import-faults').replaceChildren(...lines);
}

function say(sentence, tone = 'good') {
  showResult(byId('import-result'), sentence, tone);
}
