/**
 * What the operator's pages share: the door, strategy cards, and times in form fields.
 */
import { get } from './api.js';
import { byId, el, setText } from './dom.js';
import { currentSession, isOperator, onSessionChange, signInAddress } from './session.js';
import { text } from './strings.js';

/**
 * Show the notice at the door to whoever is no operator, and keep it right.
 * The page has `#door` for it and marks what is for operators alone with `data-operator`.
 * @param {() => void} onEnter called once, when an operator is there
 */
export function keepDoor(onEnter) {
  let entered = false;
  function look() {
    const operator = isOperator();
    byId('door').hidden = operator;
    for (const element of document.querySelectorAll('[data-operator]')) element.hidden = !operator;
    const isSignedIn = currentSession() !== null;
    // The page of signing in leads whoever has a session straight back.
    byId('door-link').hidden = isSignedIn;
    byId('door-link').href = signInAddress();
    setText(byId('door-text'), text(isSignedIn ? 'desk.notOperator' : 'desk.signIn'));
    if (!operator || entered) return;
    entered = true;
    onEnter();
  }
  onSessionChange(look);
  look();
}

/** THE LIST, as cards. @returns {Promise<object[]>} */
export function fetchStrategies() {
  return get('/api/strategies');
}

/** A small label that says whether a gate alone never oversells. @param {boolean} safe */
export function safeChip(safe) {
  return el('span', { class: 'chip', 'data-state': safe ? 'paid' : 'unsafe', text: text(safe ? 'desk.safe' : 'desk.unsafe') });
}

/**
 * A server time as the value of a `datetime-local` field, in the reader's zone; without seconds of 0, as browsers write it.
 * @param {string} instant RFC 3339
 */
export function fieldTime(instant) {
  const time = new Date(instant);
  const here = new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString();
  return here.slice(0, 19).replace(/(T\d\d:\d\d):00$/, '$1');
}

/** The value of such a field as RFC 3339; empty when the field is. @param {string} value */
export function fieldInstant(value) {
  const time = new Date(value);
  return Number.isNaN(time.getTime()) ? '' : time.toISOString();
}

/**
 * Fill a choice. What is chosen stays chosen, also when it is none of the entries.
 * @param {HTMLSelectElement} field @param {{value: string, words: string}[]} entries
 */
export function fillChoice(field, entries) {
  const [chosen] = field.selectedOptions;
  field.replaceChildren(...entries.map(({ value, words }) => el('option', { value, text: words })));
  if (chosen !== undefined) choose(field, { value: chosen.value, words: chosen.textContent });
}

/**
 * Choose an entry, which is added if it is missing: the form must not send another one than it shows.
 * @param {HTMLSelectElement} field @param {{value: string, words: string}} entry
 */
export function choose(field, { value, words }) {
  const isThere = [...field.options].some((option) => option.value === value);
  if (!isThere) field.append(el('option', { value, text: words }));
  field.value = value;
}

/**
 * Note what fields say before it is sent, and empty them when the answer has come. What is typed meanwhile stays.
 * @param {string[]} ids @returns {() => void} empties the fields that still say what was sent
 */
export function noteSent(ids) {
  const sent = ids.map((id) => ({ field: byId(id), value: byId(id).value }));
  return () => sent.filter(({ field, value }) => field.value === value).forEach(({ field }) => (field.value = ''));
}

/** The changes that have no answer yet, by name. */
const underWay = new Set();

/** Whether a change has no answer yet. @param {string} name */
export function isUnderWay(name) {
  return underWay.has(name);
}

/**
 * Send a change, and say how it went. Until then another press does nothing, because it would change something again. If
 * its answer is lost, the service may have made the change: the page reads the present state, and does not say "try again".
 * @param {string} name of the change
 * @param {{send: () => Promise<any>, done: (answer: any) => void, read: () => Promise<any>, draw: (isBusy: boolean) => void,
 *   say: (sentence: string, tone: 'good'|'bad') => void}} steps `draw` shows whether it is under way
 */
export async function changeOnce(name, { send, done, read, draw, say }) {
  if (underWay.has(name)) return;
  underWay.add(name);
  say('', 'good');
  draw(true);
  try {
    done(await send());
  } catch (error) {
    say(error.changed === 'unknown' ? await lost(read) : reason(error), 'bad');
  } finally {
    underWay.delete(name);
    draw(false);
  }
}

/** Reads the present state, and says what to do before another try. */
async function lost(read) {
  const isRead = await read().then(() => true, () => false);
  return text(isRead ? 'desk.unknown' : 'desk.unread');
}

/** Show on the button of a form whether its change is under way. @param {HTMLFormElement} form @param {boolean} isBusy */
export function showBusy(form, isBusy) {
  form.querySelector('[type=submit]').setAttribute('aria-disabled', String(isBusy));
}

/** Offer some text as a file. @param {string} name @param {string} kind media type @param {string} content */
export function download(name, kind, content) {
  const address = URL.createObjectURL(new Blob([content], { type: kind }));
  const link = el('a', { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser has to have begun with it.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Say how it went, in a line under a form. @param {Element} line @param {string} sentence @param {'good'|'bad'} [tone] */
export function showResult(line, sentence, tone = 'good') {
  line.dataset.tone = tone;
  setText(line, sentence);
}

/** What went wrong with a request that has a key, so that it may be sent again. @param {any} error an `ApiError` */
export function reasonOfKeyed(error) {
  return error.changed === 'unknown' ? text('desk.sendAgain') : reason(error);
}

/** What went wrong, in words, for a line under a form. @param {any} error an `ApiError` */
export function reason(error) {
  if (error.status === undefined) throw error;
  if (error.code === 'network') return text('desk.network');
  if (error.status === 401) return text('desk.signIn');
  return error.detail || error.code;
}
