/**
 * The waiting list of a sold-out item: join it, see the place, and buy or decline the unit that is
 * offered. The server offers a unit to the first in line and holds it for a while.
 */
import { get, post, remove } from './api.js';
import { everySecond, serverNowMs } from './clock.js';
import { announce, el, setText } from './dom.js';
import { count, duration, money, shortSpan } from './format.js';
import { follow } from './live.js';
import { stateOf } from './sale.js';
import { currentSession, signInAddress } from './session.js';
import { explain, text } from './strings.js';

const POLL_MS = 10_000;

/**
 * @param {HTMLElement} place a section that is empty to begin with
 * @param {{item: () => any, mayWait: () => boolean, accept: () => void}} options `mayWait` tells whether
 *   the buyer may have another unit; `accept` buys the offered unit
 */
export function waitingPanel(place, { item, mayWait, accept }) {
  const title = el('h2', { id: 'waiting-title' });
  const sentence = el('p', {});
  const left = el('p', { class: 'waiting-left digits', role: 'timer' });
  const failed = el('p', { class: 'result', role: 'alert', 'data-tone': 'bad' });
  const yes = el('button', { class: 'button', type: 'button', onClick: press });
  const no = el('button', { class: 'button quiet', type: 'button', onClick: leave });
  place.append(title, sentence, left, failed, el('div', { class: 'actions' }, yes, no));
  let standing = { status: 'none' };
  let stream = null;
  let busy = false;
  /** The offer stands still in a pause of a sale that is drawn. */
  let isSuspended = false;

  everySecond(draw);

  /** Forget the place of the buyer before, as after a sign-in. */
  function forget() {
    standing = { status: 'none' };
    stream?.close();
    stream = null;
  }

  /** Ask for the place again. Until the answer comes, the last one stands: a button that goes for a moment loses the focus. */
  async function load() {
    if (currentSession() === null || item().offer_seconds === 0) {
      forget();
      return draw();
    }
    const before = standing;
    try {
      const answer = await get(`/api/items/${item().id}/waiting`);
      // An event that came meanwhile is newer, and a buyer who came meanwhile is another.
      if (standing === before) take(answer);
    } catch {
      // The next poll or press shows the error.
      draw();
    }
  }

  function take(news) {
    if (news.item_id !== item().id) return;
    const before = standing.status;
    standing = news;
    if (before !== standing.status) {
      setText(failed, '');
      if (standing.status === 'offered') announce(text('waiting.offered'));
    }
    // The next press of a key must not decline what has just been offered.
    const mayMoveFocus = standing.status === 'offered' && document.activeElement === no;
    if (isLive() && stream === null)
      stream = follow('/api/orders/events', { events: { waiting: take }, poll: load, pollMs: POLL_MS });
    if (!isLive() && stream !== null) {
      stream.close();
      stream = null;
    }
    draw();
    if (mayMoveFocus && before !== standing.status) yes.focus();
  }

  function isLive() {
    return standing.status === 'waiting' || standing.status === 'offered';
  }

  function draw() {
    const facts = item();
    if (facts === null) return;
    const joinable = stateOf(facts) === 'sold_out' && facts.offer_seconds > 0 && mayWait();
    place.hidden = !isLive() && !joinable;
    place.dataset.status = standing.status;
    if (place.hidden) return;
    const span = duration(facts.offer_seconds);
    const offered = standing.status === 'offered';
    const wasSuspended = isSuspended;
    isSuspended = offered && facts.paused && facts.mode === 'draw';
    // The end of a pause gives the offer its whole time again, after a moment if there are many.
    if (wasSuspended && !isSuspended) load().then(() => setTimeout(load, POLL_MS));
    left.hidden = !offered || isSuspended;
    no.hidden = !isLive();
    if (offered) {
      setText(title, text('waiting.offered'));
      setText(sentence, text(isSuspended ? 'waiting.suspended' : 'waiting.offeredText'));
      setText(left, shortSpan(Math.max(0, Date.parse(standing.offer_expires_at) - serverNowMs())));
      setText(yes, text('waiting.buy', { amount: money(facts.price_cents, facts.currency) }));
      setText(no, text('waiting.decline'));
    } else if (standing.status === 'waiting') {
      setText(title, text('waiting.inLine'));
      const ahead = { count: standing.ahead, ahead: count(standing.ahead), time: span };
      setText(sentence, standing.ahead > 0 ? text('waiting.ahead', ahead) : text('waiting.first', { time: span }));
      setText(no, text('waiting.leave'));
    } else {
      const lapsed = standing.status === 'lapsed';
      setText(title, text(lapsed ? 'waiting.lapsed' : 'waiting.heading'));
      setText(sentence, text('waiting.text', { time: span }));
      setText(yes, text(currentSession() === null ? 'waiting.signIn' : 'waiting.join'));
    }
    yes.hidden = standing.status === 'waiting' || isSuspended;
    for (const button of [yes, no]) button.setAttribute('aria-disabled', String(busy));
  }

  function press() {
    if (busy) return;
    if (standing.status === 'offered') return accept();
    if (currentSession() === null) return location.assign(signInAddress('#waiting'));
    change(() => post(`/api/items/${item().id}/waiting`));
  }

  function leave() {
    if (!busy) change(() => remove(`/api/items/${item().id}/waiting`));
  }

  async function change(send) {
    busy = true;
    const buyer = currentSession()?.user_id;
    setText(failed, '');
    draw();
    try {
      const answer = await send();
      busy = false;
      // Another buyer may be signed in by now.
      if (answer === null || currentSession()?.user_id !== buyer) await load();
      else take(answer);
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status === 401) return location.assign(signInAddress('#waiting'));
      busy = false;
      draw();
      setText(failed, explain(error.code, { limit: item().per_buyer_limit }).title);
    }
    announce(`${title.textContent}. ${sentence.textContent}`);
    // The focus must not fall off a button that is gone.
    if (document.activeElement === document.body) (yes.hidden ? no : yes).focus();
  }

  return { forget, load, draw };
}
