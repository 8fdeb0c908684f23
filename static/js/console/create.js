/**
 * A new sale: a form that opens over the page.
 */
import { post } from '../api.js';
import { newKey } from '../buy.js';
import { serverNowMs } from '../clock.js';
import { fieldInstant, fieldTime, reasonOfKeyed } from '../desk.js';
import { byId, el, setText } from '../dom.js';
import { minorDigits } from '../format.js';
import { variantFields } from './products.js';

const LASTS_MS = 3_600_000;
let busy = false;
/** What was sent last. The same is sent again with its key, so that an answer that was lost creates nothing twice. */
let sent = { key: '', written: '', isLost: false };

/** Wire the form once. @param {(item: object) => void} onCreated */
export function startCreating(onCreated) {
  const dialog = byId('new-dialog');
  byId('new').addEventListener('click', () => {
    if (!busy && !sent.isLost) suggestTimes();
    setText(byId('new-error'), '');
    dialog.showModal();
  });
  const codes = Intl.supportedValuesOf('currency').map((code) => el('option', { value: code }));
  byId('new-currencies').replaceChildren(...codes);
  byId('new-cancel').addEventListener('click', () => dialog.close());
  byId('new-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    try {
      const read = () => body(new FormData(event.target));
      const wanted = read();
      const created = await send(wanted);
      // Another sale may be typed by now.
      if (JSON.stringify(read()) === JSON.stringify(wanted)) {
        dialog.close();
        event.target.reset();
      }
      onCreated(created);
    } catch (error) {
      setText(byId('new-error'), reasonOfKeyed(error));
    } finally {
      busy = false;
    }
  });
}

/** Defaults: what was typed before the form was closed stays. */
function suggestTimes() {
  byId('new-starts').defaultValue = fieldTime(new Date(serverNowMs()).toISOString());
  byId('new-ends').defaultValue = fieldTime(new Date(serverNowMs() + LASTS_MS).toISOString());
}

async function send(wanted) {
  const written = JSON.stringify(wanted);
  if (written !== sent.written) sent = { key: newKey(), written, isLost: false };
  try {
    const created = await post('/api/admin/items', wanted, { 'Idempotency-Key': sent.key });
    // The next sale may be just like this one.
    sent = { key: '', written: '', isLost: false };
    return created;
  } catch (error) {
    sent.isLost ||= error.changed === 'unknown';
    throw error;
  }
}

/**
 * The shop's currency, for the next sale. It is asked for again and again, so it may come between two keys: a field
 * that was typed in or emptied stays as it is, and takes the currency when the form is reset.
 * @param {string} currency
 */
export function suggestCurrency(currency) {
  byId('new-currency').defaultValue = currency;
}

/** @param {FormData} form @returns {object} the body of the request */
function body(form) {
  const whole = (name) => Math.trunc(Number(form.get(name)));
  const picture = String(form.get('image_url')).trim();
  const currency = String(form.get('currency')).trim().toUpperCase();
  const closesAt = fieldInstant(String(form.get('draw')));
  return {
    name: form.get('name'),
    description: form.get('description'),
    ...(picture !== '' && { image_url: picture }),
    price_cents: Math.round(Number(form.get('price')) * 10 ** minorDigits(currency)),
    currency,
    stock: whole('stock'),
    per_buyer_limit: whole('limit'),
    unpaid_max: whole('unpaid'),
    hold_seconds: whole('hold'),
    offer_seconds: whole('offer'),
    extend_seconds: whole('extend'),
    return_seconds: whole('return'),
    limit_group_id: whole('group'),
    ...variantFields(String(form.get('product')), String(form.get('options'))),
    starts_at: fieldInstant(String(form.get('starts'))),
    ends_at: fieldInstant(String(form.get('ends'))),
    strategy: form.get('strategy'),
    ...(closesAt !== '' && { mode: 'draw', draw_closes_at: closesAt, draw_party_max: whole('party') }),
  };
}
