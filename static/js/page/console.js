/**
 * The operator's console: the sales, one of them watched and edited, and the service's health.
 */
import { get } from '../api.js';
import { everySecond } from '../clock.js';
import { startCreating, suggestCurrency } from '../console/create.js';
import { drawSale, editSale, startEditing } from '../console/edit.js';
import { startGroups } from '../console/groups.js';
import { startProducts } from '../console/products.js';
import { startFiles } from '../console/files.js';
import { watchHealth } from '../console/health.js';
import { loadStrategies } from '../console/strategies.js';
import { watchSale } from '../console/watch.js';
import { keepDoor, reason } from '../desk.js';
import { byId, el, setText } from '../dom.js';
import { count, money } from '../format.js';
import { startFrame } from '../frame.js';
import { countdownText, mergeFacts, nextMoment, stateChip } from '../sale.js';
import { text } from '../strings.js';

const PERIOD_MS = 2_000;

/** @type {Map<number, {item: object, element: HTMLElement, draw: () => void}>} */
const rows = new Map();
const chip = stateChip();
let chosenId = 0;
let watched = null;

startFrame('title.console');
byId('sale-state').replaceChildren(chip.element);
keepDoor(begin);

async function begin() {
  startCreating(take);
  startEditing(takeNow);
  startFiles(() => chosenId, take);
  watchHealth();
  everySecond(() => {
    for (const row of rows.values()) row.draw();
    drawChosen();
  });
  try {
    await Promise.all([loadStrategies(), startGroups(), startProducts()]);
  } catch (error) {
    setText(byId('failed'), reason(error));
    byId('failed').hidden = false;
  }
  keepRefreshing();
}

async function keepRefreshing() {
  try {
    if (!document.hidden) {
      const { items, currency } = await get('/api/items');
      suggestCurrency(currency);
      takeAll(items);
      byId('failed').hidden = true;
    }
  } catch (error) {
    setText(byId('failed'), reason(error));
    byId('failed').hidden = false;
  }
  setTimeout(keepRefreshing, PERIOD_MS);
}

function takeAll(items) {
  for (const item of items) takeQuietly(item);
  byId('no-sales').hidden = rows.size > 0;
  const wanted = Number(new URLSearchParams(location.search).get('id'));
  if (chosenId === 0 && rows.size > 0) choose(rows.has(wanted) ? wanted : items.at(-1).id);
}

function takeQuietly(item) {
  const row = rows.get(item.id);
  if (row === undefined) return addRow(item);
  if (mergeFacts(row.item, item)) row.draw();
  if (item.id === chosenId) drawSale(row.item);
}

/** A sale that was just created: it is the one to look at. */
function take(item) {
  takeQuietly(item);
  byId('no-sales').hidden = true;
  choose(item.id);
}

/** The answer to an edit. */
function takeNow(item) {
  takeQuietly(item);
  drawChosen();
}

function addRow(item) {
  const rowChip = stateChip();
  const name = el('strong', {});
  const facts = el('span', { class: 'hint digits' });
  const button = el('button', { type: 'button', class: 'sale-row', onClick: () => choose(item.id) }, name, rowChip.element, facts);
  const row = { item, element: el('li', {}, button), button, draw };
  function draw() {
    setText(name, item.name);
    rowChip.draw(nextMoment(item).state);
    setText(facts, text('console.row', { left: count(item.available), total: count(item.total), strategy: item.strategy }));
    button.setAttribute('aria-pressed', String(item.id === chosenId));
  }
  rows.set(item.id, row);
  draw();
  const older = [...rows.values()].filter((other) => other.item.id < item.id);
  const next = older.sort((a, b) => b.item.id - a.item.id)[0];
  byId('sales').insertBefore(row.element, next?.element ?? null);
}

function choose(id) {
  if (id === chosenId) return;
  chosenId = id;
  history.replaceState(null, '', `?id=${id}`);
  watched?.stop();
  watched = watchSale(id);
  editSale(rows.get(id).item);
  byId('sale').hidden = false;
  for (const row of rows.values()) row.draw();
  drawChosen();
}

function drawChosen() {
  const item = rows.get(chosenId)?.item;
  if (item === undefined) return;
  const { state, atMs, label } = nextMoment(item);
  chip.draw(state);
  setText(byId('sale-name'), item.name);
  setText(byId('sale-moment'), state === 'ended' ? '' : `${label} ${countdownText(atMs)}`);
  setText(byId('sale-price'), money(item.price_cents, item.currency));
  setText(byId('sale-strategy'), item.strategy);
  byId('sale-link').href = `/item.html?id=${item.id}`;
}
