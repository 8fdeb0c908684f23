/**
 * The draw of an item: enter or withdraw, wait for the close, and see the place. The offers come from the waiting list.
 */
import { get, post, remove } from './api.js';
import { everySecond, serverNowMs } from './clock.js';
import { download } from './desk.js';
import { announce, el, setText } from './dom.js';
import { count, dateTime } from './format.js';
import { forgetDraw, isKeptForLong, keepDraw, keptDraw } from './kept-draws.js';
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
  const reason = el('p', {});
  const mine = el('p', { class: 'hint' });
  const saved = el('p', { class: 'hint draw-saved', role: 'status' });
  const failed = el('p', { class: 'result', role: 'alert', 'data-tone': 'bad' });
  const friends = el('p', {});
  const invitation = el('a', { class: 'draw-invitation' });
  const button = el('button', { class: 'button', type: 'button', onClick: press });
  const second = el('button', { class: 'button quiet', type: 'button', onClick: pressSecond });
  const keepTitle = el('summary', {});
  const keepSentence = el('p', {});
  const save = el('button', { class: 'button quiet', type: 'button', onClick: saveEntry });
  const checker = el('a', { href: '/verify.html', download: 'verify.html' });
  const keep = el('details', { class: 'draw-keep', hidden: true }, keepTitle, keepSentence, el('div', { class: 'actions' }, save), el('p', { class: 'hint' }, checker));
  const worth = el('p', { class: 'hint' });
  const how = el('p', { class: 'hint' });
  const proof = el('a', {});
  const check = el('a', { href: '/verify.html' });
  const links = el('p', { class: 'hint' }, proof, ' · ', check);
  const actions = el('div', { class: 'actions' }, button, second);
  place.append(title, sentence, reason, moment, friends, invitation, mine, saved, failed, actions, keep, worth, how, links);
  /** @type {any} */
  let draw = null;
  /** @type {any} */
  let entry = null;
  let busy = false;
  let timer = 0;
  /** The sentences about what does not fit to what this browser has kept. @type {string[]} */
  let warnings = [];

  everySecond(show);

  /** Ask for the draw and the entry again, as after a sign-in. */
  async function load() {
    if (item().mode !== 'draw') return;
    // The entry of the buyer before is hidden at once.
    entry = null;
    show();
    await look();
  }

  /** The entry is read at first, and once more when it has its place. */
  async function look() {
    const path = `/api/items/${item().id}`;
    const buyer = currentSession()?.user_id;
    try {
      draw = await get(`${path}/draw`);
      const isKnown = entry !== null && (draw.state !== 'drawn' || entry.status !== 'entered');
      const read = isKnown ? entry : buyer === undefined ? { status: 'none' } : await get(`${path}/entry`);
      // Another buyer may be signed in by now.
      if (currentSession()?.user_id === buyer) entry = read;
    } catch (error) {
      if (error.status === undefined) throw error;
      // The next look shows it.
    }
    keepOwn(false);
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
    const words = { time: dateTime(draw.closes_at), place: count(entry.place ?? 0), count: draw.entries ?? 0, entries: count(draw.entries ?? 0), units: count(item().total) };
    const kind = state === 'drawn' && entered ? 'placed' : state === 'open' && entered ? 'entered' : state;
    place.dataset.status = kind;
    setText(title, text(`draw.${kind}`, words));
    setText(sentence, text(`draw.${kind}Text`, words));
    // The page has a countdown to the opening.
    moment.hidden = state !== 'open';
    if (!moment.hidden) setText(moment, countdownText(Date.parse(draw.closes_at)));
    mine.hidden = !entered;
    setText(mine, entered ? text('draw.entry', { entry: entry.entry }) : '');
    button.hidden = state !== 'open';
    const enter = isInvited() ? 'draw.join' : 'draw.enter';
    setText(button, text(currentSession() === null ? 'draw.signIn' : entered ? 'draw.withdraw' : enter));
    button.classList.toggle('quiet', entered);
    second.hidden = state !== 'open' || draw.party_max === 1 || currentSession() === null || (isTogether() && !isInvited());
    setText(second, text(isInvited() ? (entered ? 'draw.join' : 'draw.enterAlone') : entered ? 'draw.invite' : 'draw.enterTogether'));
    for (const one of [button, second]) one.setAttribute('aria-disabled', String(busy));
    showFriends(state);
    setText(keepTitle, text('draw.keep'));
    setText(keepSentence, text('draw.keepText'));
    setText(save, text('draw.keepSave'));
    setText(checker, text('draw.keepChecker'));
    showReason(state);
    showSaved(entered);
    showProof(state);
  }

  /** Why a buyer has no unit yet. */
  function showReason(state) {
    const units = item().total;
    const lost = state === 'drawn' && (entry.place ?? 0) > units;
    reason.hidden = !lost;
    const before = lost ? entry.place - 1 : 0;
    const words = { count: before, ahead: count(before), units: count(units) };
    setText(reason, lost ? text(draw.proof === 'public' ? 'draw.lost' : 'draw.lostLocal', words) : '');
  }

  /** What this browser has kept, and what does not fit to it. */
  function showSaved(entered) {
    const own = kept();
    keep.hidden = own === null;
    saved.hidden = own === null;
    if (own === null) return;
    const missing = !entered && currentSession() !== null;
    const hasList = own.announcement.includes('\nseckill draw head 3\n');
    saved.dataset.tone = warnings.length > 0 || missing ? 'bad' : '';
    if (missing) setText(saved, text('draw.missing'));
    else if (warnings.length > 0) setText(saved, warnings.map((key) => text(key)).join(' '));
    else if (!isKeptForLong()) setText(saved, text('draw.savedNot'));
    else setText(saved, text(hasList ? 'draw.savedList' : 'draw.saved'));
  }

  /** What proves the places, and what it is worth. */
  function showProof(state) {
    const drawn = state === 'drawn';
    const none = draw.proof === 'none';
    links.hidden = none;
    worth.hidden = draw.proof === 'public';
    setText(worth, text(none ? 'draw.none' : 'draw.local'));
    how.hidden = none || !drawn;
    setText(how, text('draw.how'));
    setText(proof, text(drawn ? 'draw.proof' : 'draw.announcement'));
    proof.setAttribute('href', `/api/items/${item().id}/draw/${drawn ? 'entries' : 'announcement'}`);
    proof.setAttribute('download', `draw-${item().id}-${drawn ? 'proof' : 'announcement'}.txt`);
    setText(check, text('draw.check'));
  }

  /** What this browser has kept of the buyer's entry. */
  function kept() {
    const session = currentSession();
    return session === null ? null : keptDraw(item().id, session.user_id);
  }

  /** Keeps what is announced and promised now. @param {boolean} isOwnChange the buyer has just changed the entry here */
  function keepOwn(isOwnChange) {
    const session = currentSession();
    if (session === null || draw === null || typeof entry?.promise !== 'string') return;
    warnings = keepDraw(item().id, session.user_id, { rules: draw.rules, head: draw.head, entry, isOwnChange });
  }

  function saveEntry() {
    const { announcement, promise, entry: id } = kept();
    download(`draw-${item().id}-${id.slice(0, 8)}.txt`, 'text/plain', announcement + promise);
  }

  /** The key of friends in the address of this page, as their invitation has it. */
  function keyOfFriends() {
    return new URLSearchParams(location.hash.slice(1)).get('party');
  }

  function isTogether() {
    return (entry.party ?? null) !== null;
  }

  function isInvited() {
    const key = keyOfFriends();
    return draw.party_max > 1 && key !== null && key !== entry.party;
  }

  function showFriends(state) {
    const isOpen = state === 'open';
    const invited = isOpen && isInvited() && !isTogether();
    friends.hidden = !isTogether() && !invited;
    invitation.hidden = !isTogether() || !isOpen;
    const words = { count: entry.members ?? 1, members: count(entry.members ?? 1), most: count(draw.party_max) };
    setText(friends, friends.hidden ? '' : text(invited ? 'draw.invited' : isOpen ? 'draw.friends' : 'draw.together', words));
    if (invitation.hidden) return;
    const address = `${location.origin}/item.html?id=${item().id}#party=${entry.party}`;
    invitation.setAttribute('href', address);
    setText(invitation, address);
  }

  function press() {
    const path = `/api/items/${item().id}/entry`;
    if (entry.status !== 'none') return change(() => withdraw(path));
    return change(() => post(path, isInvited() ? { party: keyOfFriends() } : {}));
  }

  async function withdraw(path) {
    const { user_id: buyer } = currentSession();
    await remove(path);
    forgetDraw(item().id, buyer);
    return { status: 'none' };
  }

  /** Enters with friends; or alone, if the page was opened by an invitation. */
  function pressSecond() {
    const path = `/api/items/${item().id}/entry`;
    if (isInvited() && entry.status === 'none') return change(() => post(path));
    return change(() => post(path, { party: isInvited() ? keyOfFriends() : 'new' }));
  }

  /** @param {() => Promise<any>} request */
  async function change(request) {
    if (busy) return;
    const hash = keyOfFriends() === null ? '#draw' : location.hash;
    if (currentSession() === null) return location.assign(signInAddress(hash));
    const { user_id: buyer } = currentSession();
    busy = true;
    setText(failed, '');
    show();
    try {
      const changed = await request();
      // Another buyer may be signed in by now.
      if (currentSession()?.user_id === buyer) {
        entry = changed;
        keepOwn(true);
      }
    } catch (error) {
      if (error.status === undefined) throw error;
      if (error.status === 401) return location.assign(signInAddress(hash));
      setText(failed, explain(error.code, {}).title);
    }
    busy = false;
    show();
    announce(title.textContent);
  }

  return { load, isOver };
}
