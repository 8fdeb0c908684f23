/**
 * Several ledgers: each with its items and its state, and the moves of items between them.
 */
import { get } from '../api.js';
import { byId, el } from '../dom.js';
import { count, dateTime } from '../format.js';
import { text } from '../strings.js';

const PERIOD_MS = 5_000;
/** Moves that are shown; the command `seckill shard moves` lists more. */
const MOVES_MAX = 20;

/** Look now and then, for as long as the page is there. With one ledger there is nothing to see. */
export async function watchLedgers() {
  try {
    if (!document.hidden) draw(await get('/api/admin/shards'));
  } catch {
    // The state of the home ledger stands among the dependencies; what was seen last stays.
  }
  setTimeout(watchLedgers, PERIOD_MS);
}

function draw({ shards, moves }) {
  byId('ledgers').hidden = shards.length < 2 && moves.length === 0;
  byId('ledger-list').replaceChildren(...shards.map(ledger));
  byId('no-moves').hidden = moves.length > 0;
  byId('move-list').replaceChildren(...moves.slice(0, MOVES_MAX).map(move));
}

function ledger({ number, items, state }) {
  const isOk = state === 'ok';
  return el(
    'li',
    {},
    el('span', { class: 'chip', 'data-state': isOk ? 'paid' : 'unsafe', text: isOk ? text('health.ok') : text('health.failed') }),
    el('strong', { text: text('watch.shard', { number }) }),
    el('span', { class: 'hint', text: isOk ? '' : state }),
    el('span', { class: 'hint digits', text: text('ledgers.items', { count: count(items) }) }),
  );
}

function move({ item_id, source, target, state, under_way, started_at, pause_ms }) {
  const tone = under_way ? 'pending' : state === 'done' ? 'paid' : 'ended';
  const began = text('ledgers.began', { time: dateTime(started_at) });
  const pause = pause_ms === null ? '' : text('ledgers.pause', { ms: count(pause_ms) });
  return el(
    'li',
    {},
    el('span', { class: 'chip', 'data-state': tone, text: text(`ledgers.state.${state}`) }),
    el('strong', { text: text('ledgers.move', { item: item_id, source, target }) }),
    el('span', { class: 'hint', text: began }),
    el('span', { class: 'hint digits', text: pause }),
  );
}
