/**
 * What an operator does to a sale that is there: pause, restock, reschedule, change its strategy,
 * audit it.
 */
import { get, patch } from '../api.js';
import { announce, byId, el, setText } from '../dom.js';
import { changeOnce, choose, download, fieldInstant, fieldTime, isUnderWay, noteSent, reason, showResult } from '../desk.js';
import { text } from '../strings.js';
import { showDraw } from './draw.js';
import { showGroup } from './groups.js';
import { showProduct, variantFields } from './products.js';
import { strategyHint } from './strategies.js';

/** @type {any} */
let item = null;
let onEdited = () => {};
let lastAudit = null;
/** What can be changed, and the button that does it. */
const BUTTONS = {
  pause: '#pause',
  room: '#room',
  restock: '#restock-form [type=submit]',
  schedule: '#schedule-form [type=submit]',
  waiting: '#waiting-form [type=submit]',
  variant: '#variant-form [type=submit]',
  strategy: '#strategy-form [type=submit]',
};

/** The fields that show how the sale is, by their names in a request. */
const FIELDS = {
  schedule: { starts_at: 'edit-starts', ends_at: 'edit-ends' },
  waiting: {
    unpaid_max: 'edit-unpaid',
    offer_seconds: 'edit-offer',
    extend_seconds: 'edit-extend',
    return_seconds: 'edit-return',
    limit_group_id: 'edit-group',
  },
};
/** What the page has filled in, by field. */
const filled = {};

/** Wire the forms once. @param {(item: object) => void} edited called with what the server answered */
export function startEditing(edited) {
  onEdited = edited;
  onPress('pause', () => edit('pause', { paused: !item.paused }, 'edit-result'));
  onPress('room', () => edit('room', { waiting_room: !item.waiting_room }, 'edit-result'));
  on('restock', restock);
  for (const form of Object.keys(FIELDS)) on(form, () => edit(form, changed(form)));
  on('variant', () => edit('variant', variantFields(byId('edit-product').value, byId('edit-options').value)));
  on('strategy', () => edit('strategy', { strategy: byId('edit-strategy').value }));
  byId('edit-strategy').addEventListener('change', drawHint);
  byId('audit').addEventListener('click', audit);
  byId('audit-download').addEventListener('click', () =>
    download(`seckill-audit-${lastAudit.item_id}.json`, 'application/json', JSON.stringify(lastAudit, null, 2)),
  );
}

/** What the operator has changed in a form. The rest is left to other operators. */
function changed(form) {
  const typed = Object.entries(FIELDS[form]).filter(([, id]) => byId(id).value !== filled[id]);
  const read = (name, id) => (name.endsWith('_at') ? fieldInstant(byId(id).value) : whole(id));
  return Object.fromEntries(typed.map(([name, id]) => [name, read(name, id)]));
}

/** Fill in how the sale is now. What the operator has typed stays. */
function fillIn() {
  const times = { starts_at: fieldTime(item.starts_at), ends_at: fieldTime(item.ends_at) };
  const facts = { ...item, ...times, limit_group_id: item.limit_group?.id ?? 0 };
  for (const [name, id] of Object.values(FIELDS).flatMap(Object.entries)) {
    const field = byId(id);
    const fact = String(facts[name]);
    if (field.value === filled[id] && filled[id] !== fact) {
      if (name === 'limit_group_id') showGroup(item);
      else field.value = fact;
    }
    if (field.value === fact) filled[id] = fact;
  }
}

function whole(id) {
  return Math.trunc(Number(byId(id).value));
}

/** Show the forms for another sale. @param {object} chosen */
export function editSale(chosen) {
  item = chosen;
  lastAudit = null;
  byId('audit-result').hidden = true;
  for (const id of ['edit-result', 'restock-result', 'schedule-result', 'waiting-result', 'variant-result', 'strategy-result', 'audit-failed'])
    setText(byId(id), '');
  for (const id of Object.values(FIELDS).flatMap(Object.values)) filled[id] = byId(id).value;
  showProduct(item);
  showDraw(item);
  choose(byId('edit-strategy'), { value: item.strategy, words: item.strategy });
  drawSale(chosen);
  drawButtons();
  drawHint();
}

/** Newer facts of the same sale. @param {object} newer */
export function drawSale(newer) {
  item = newer;
  fillIn();
  setText(byId('pause'), text(item.paused ? 'edit.resume' : 'edit.pause'));
  setText(byId('room'), text(item.waiting_room ? 'edit.roomClose' : 'edit.roomOpen'));
}

/** The second click of a double click would take back what the first one did. */
function onPress(id, action) {
  byId(id).addEventListener('click', ({ detail: clicks }) => clicks < 2 && action());
}

function on(what, action) {
  byId(`${what}-form`).addEventListener('submit', (event) => {
    event.preventDefault();
    action();
  });
}

/** A second press adds nothing: the field is empty by then. */
function restock() {
  const units = whole('restock');
  if (units === 0) return byId('restock').focus();
  const emptySent = noteSent(['restock']);
  edit('restock', { stock_delta: units }, 'restock-result', emptySent);
}

/** Change the sale, and say how it went, unless another sale is shown by then. */
function edit(what, change, resultId = `${what}-result`, onDone = () => {}) {
  const { id } = item;
  const say = (words, tone) => id === item.id && showResult(byId(resultId), words, tone);
  changeOnce(`${id} ${what}`, {
    send: () => patch(`/api/admin/items/${id}`, change),
    done: (edited) => {
      say(text('edit.done'), 'good');
      onDone();
      onEdited(edited);
    },
    read: async () => onEdited(await get(`/api/items/${id}`)),
    draw: drawButtons,
    say,
  });
}

function drawButtons() {
  for (const [what, css] of Object.entries(BUTTONS))
    document.querySelector(css).setAttribute('aria-disabled', String(isUnderWay(`${item.id} ${what}`)));
}

function drawHint() {
  setText(byId('edit-strategy-hint'), strategyHint(byId('edit-strategy').value));
}

async function audit() {
  const { id } = item;
  setText(byId('audit-failed'), '');
  try {
    const found = await get(`/api/admin/items/${id}/audit`);
    // Another sale may be shown by now.
    if (id !== item.id) return;
    lastAudit = found;
  } catch (error) {
    if (id === item.id) setText(byId('audit-failed'), reason(error));
    return;
  }
  const verdict = text(lastAudit.clean ? 'audit.clean' : 'audit.broken');
  showResult(byId('audit-verdict'), verdict, lastAudit.clean ? 'good' : 'bad');
  const rows = lastAudit.findings.map(({ invariant, claim, holds, detail }) => {
    const word = holds === null ? 'notJudged' : holds ? 'holds' : 'isBroken';
    const state = { notJudged: 'ended', holds: 'paid', isBroken: 'unsafe' }[word];
    return el(
      'li',
      {},
      el('span', { class: 'chip', 'data-state': state, text: text(`audit.${word}`) }),
      el('div', {}, el('strong', { text: `${invariant} ` }), claim, el('p', { class: 'hint', text: detail })),
    );
  });
  byId('audit-findings').replaceChildren(...rows);
  byId('audit-result').hidden = false;
  announce(verdict);
}
