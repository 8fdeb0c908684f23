/**
 * The draw of an item: enter or withdraw, wait for the close, and see the place. The offers come from the waiting list.
 */
import { get, post, remove } from './api.js';
import { everySecond, serverNowMs } from './clock.js';
import { announce, el, setText } from './dom.js';
import { count, dateTime } from './format.js';
import { countdownText } from './sale.js';
import { currentSession, signInAddress } from './session.js';
import { explain, text } from './strings.js';

const POLL_MS = 2_000;
const PAUSE_MS_MAX = 600_000;

/**
 * @param {HTMLElement} place a section that is empty to begin with
 * @param {{item: () => any, onDrawn: () => void}} options `onDrawn` is told once the places are known
 */
export function drawPanel(place, { item, onDrawn }) {
  const title = el('h2', { id: 'draw-title' });
  const sentence = el('p', {});
  const moment = el('p', { class: 'draw-left digits', role: 'timer' });
  const mine = el('p', { class: 'hint' });
  const failed = el('p', { class: 'result', role: 'alert', 'data-tone': 'bad' });
  const button = el('button', { class: 'button', type: 'button', onClick: press });
  const proof = el('a', {});
  const check = el('a', {});
  const links = el('p', { class: 'hint' }, proof, ' · ', check);
  place.append(title, sentence, moment, mine, failed, el('div', { class: 'actions' }, button), links);
  /** @type {any} */
  let draw = null;
  /** @type {any} */
  let entry = null;
  let busy = false;
  let timer = 0;

  everySecond(show);

  /** Ask for the draw and the entry again, as after a sign-in. */
  async function load() {
    if (item().mode !== 'draw') return;
    entry = null;
    await look();
  }

  /** The entry is read at first, and once more when it has its place. */
  async function look() {
    const path = `/api/items/${item().id}`;
    try {
      draw = await get(`${path}/draw`);
      const isKnown = entry !== null && (draw.state !== 'drawn' || entry.status !== 'entered');
      if (!isKnown) entry = currentSession() === null ? { status: 'none' } : await get(`${path}/entry`);
    } catch (error) {
      if (error.status === undefined) throw error;
      // The next look shows it.
    }
    show();
    clearTimeout(timer);
    if (!isOver() || entry === null) {
      timer = setTimeout(look, pauseMs());
      return;
    }
    announce(`${title.textContent}. ${sentence.textContent}`);
    onDrawn();
  }

  /** Nothing changes by itself before the close. */
  function pauseMs() {
    const leftMs = draw === null ? 0 : Date.parse(draw.closes_at) - serverNowMs();
    // Not all pages in one moment.
    return Math.min(Math.max(leftMs, POLL_MS), PAUSE_MS_MAX) + Math.random() * POLL_MS;
  }

  function isOver() {
    return item().mode !== 'draw' || draw?.state === 'drawn';
  }

  function stateNow() {
    if (draw.state === 'open' && serverNowMs() >= Date.parse(draw.closes_at)) return 'closed';
    if (draw.state === 'upcoming' && serverNowMs() >= Date.parse(item().starts_at)) return 'open';
    return draw.state;
  }

  function show() {
    place.hidden = item()?.mode !== 'draw' || draw === null || entry === null;
    if (place.hidden) return;
    const state = stateNow();
    const entered = entry.status !== 'none';
    const words = { time: dateTime(draw.closes_at), place: count(entry.place ?? 0), count: draw.entries ?? 0, entries: count(draw.entries ?? 0) };
    const kind = state === 'drawn' && entered ? 'placed' : state === 'open' && entered ? 'entered' : state;
    place.dataset.status = kind;
    setText(title, text(`draw.${kind}`, words));
    setText(sentence, text(`draw.${kind}Text`, words));
    moment.hidden = state === 'drawn' || state === 'closed';
    if (!moment.hidden) setText(moment, countdownText(Date.parse(state === 'upcoming' ? item().starts_at : draw.closes_at)));
    mine.hidden = !entered;
    setText(mine, entered ? text('draw.entry', { entry: entry.entry }) : '');
    button.hidden = state !== 'open';
    setText(button, text(currentSession() === null ? 'draw.signIn' : entered ? 'draw.withdraw' : 'draw.enter'));
    button.classList.toggle('quiet', entered);
    button.setAttribute('aria-disabled', String(busy));
    setText(proof, text(state === 'drawn' ? 'draw.proof' : 'draw.announcement'));
    proof.setAttribute('href', `/api/items/${item().id}/draw${state === 'drawn' ? '/entries' : ''}`);
    setText(check, text('draw.check'));
    check.setAttribute('href', `/verify.html#item=${item().id}${entered ? `&entry=${entry.entry}` : ''}`);
  }

  async function press() {
    if (busy) return;
    if (currentSession() === null) return location.assign(signInAddress('#draw'));
    busy = true;
    setText(failed, '');
    show();
    const path = `/api/items/${item().id}/entry`;
    try {
      entry = entry.status === 'none' ? await post(path) : ((await remove(path)) ?? { status: 'none' });
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status === 401) return location.assign(signInAddress('#draw'));
      setText(failed, explain(error.code, {}).title);
    }
    busy = false;
    show();
    announce(title.textContent);
  }

  return { load, isOver };
}
