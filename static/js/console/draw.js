/**
 * The draw of the sale that is shown: its state, its entries, and what proves its places as far as it is published.
 */
import { get } from '../api.js';
import { byId, el, setText } from '../dom.js';
import { count, dateTime } from '../format.js';
import { text } from '../strings.js';

const PERIOD_MS = 2_000;
let shownId = 0;
let timer = 0;

/** @param {any} item */
export function showDraw(item) {
  clearTimeout(timer);
  shownId = item.mode === 'draw' ? item.id : 0;
  byId('draw').hidden = true;
  if (shownId !== 0) look();
}

async function look() {
  const id = shownId;
  try {
    const [draw, now] = await Promise.all([get(`/api/items/${id}/draw`), get(`/api/admin/items/${id}/draw`)]);
    if (id !== shownId) return;
    paint(id, draw, now);
    if (draw.state === 'drawn') return;
  } catch (error) {
    if (error.status === undefined) throw error;
    // The next look shows it.
  }
  if (id === shownId) timer = setTimeout(look, PERIOD_MS);
}

function paint(id, draw, { entries, parties, placed }) {
  setText(byId('draw-state'), text(`draws.${draw.state}`, { time: dateTime(draw.closes_at) }));
  const facts = [
    ['entries', count(entries)],
    ['parties', draw.party_max > 1 ? text('draws.partiesOf', { parties: count(parties), most: count(draw.party_max) }) : null],
    ['placed', draw.root === null ? null : text('draws.placedOf', { placed: count(placed), entries: count(entries) })],
    ['beacon', text('draws.round', { beacon: draw.beacon, round: String(draw.round) })],
    ['public', text(draw.proof === 'public' ? 'draws.publicYes' : 'draws.publicNo')],
    ['root', draw.root],
  ];
  const rows = facts
    .filter(([, value]) => value !== null)
    .map(([name, value]) => el('div', {}, el('dt', { text: text(`draws.${name}`) }), el('dd', { class: 'digits', text: value })));
  byId('draw-facts').replaceChildren(...rows);
  byId('draw-proof').hidden = draw.state !== 'drawn' || draw.proof === 'none';
  byId('draw-proof-file').href = `/api/items/${id}/draw/entries`;
  byId('draw').hidden = false;
}
