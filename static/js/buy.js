/**
 * One press of *Buy* or *Reserve*, carried to a definite outcome.
 *
 * The rule that keeps a buyer from paying twice: an idempotency key is made and stored *before*
 * the first request, every repetition sends the same key, and the key is thrown away only when
 * the attempt has ended and the server has said what happened. A double click, a reload, a second tab or a lost
 * connection therefore all repeat one and the same purchase.
 *
 * Phases: `idle` -> (`line` ->) `sending` <-> `waiting` -> `done`; `done` may be started again. `line` is
 * for items with a waiting room.
 */
import { post } from './api.js';
import { createLine } from './line.js';
import { currentSession } from './session.js';
import { readEntry, removeEntry, writeEntry } from './storage.js';

/** How hard we try before we tell the buyer. Bounded: a shop in trouble needs fewer requests. */
export const ATTEMPTS_MAX = 6;
const BACKOFF_MS_MIN = 400;
const BACKOFF_MS_MAX = 5_000;
/** A server that asks for a longer pause is obeyed by the buyer's own press, not by a timer. */
const RETRY_AFTER_MS_MAX = 10_000;
/**
 * A younger attempt without an answer is finished at once when the page comes back. One that has changed nothing is
 * under way, here or in another tab, while it was stored less than this ago: no pause is as long.
 */
const RESUME_AGE_MS_MAX = 60_000;
/** The statuses of refusals for which the service has looked for an order with the key. */
const LOOKED = [404, 409, 422];

/**
 * @typedef {{kind: 'sold'|'queued', order: object} | {kind: 'left'}
 *   | {kind: 'refused'|'unavailable'|'unknown'|'sign_in', code: string, retryAfterMs: number|null,
 *   itemId?: number|null}} Outcome
 * @typedef {{phase: 'idle'|'line'|'sending'|'waiting'|'done', attempt: number, standing: object|null, waitMs: number, code: string|null,
 *   resumed: boolean, outcome: Outcome|null}} PurchaseState
 * @typedef {{key: string, quantity?: number, lines?: object[], madeAtMs: number, uncertain: boolean, keptAtMs?: number}} Attempt
 *   `uncertain`: a request may have taken effect
 */

/**
 * The purchase of one item by one buyer.
 * @param {{itemId: number, userId: number, hasRoom: () => boolean, isOffer?: boolean, onChange: (state: PurchaseState) => void}} options
 *   `hasRoom` tells whether the item has a waiting room; `isOffer` buys the unit that is offered to a buyer who waited
 */
export function createPurchase({ itemId, userId, hasRoom, isOffer = false, onChange }) {
  const attempts = createAttempts({
    entry: `seckill.${isOffer ? 'offer' : 'purchase'}.${userId}.${itemId}`,
    path: isOffer ? `/api/items/${itemId}/waiting/purchase` : `/api/seckill/default/${itemId}`,
    body: ({ quantity }) => (isOffer ? {} : { quantity }),
    line: createLine({ itemId, userId }),
    hasRoom,
    onChange,
  });
  return { ...attempts, start: (quantity) => attempts.start({ quantity }) };
}

/**
 * The reservation of a cart by one buyer, all or none. Items with a waiting room are bought on their pages.
 * @param {{userId: number, onChange: (state: PurchaseState) => void}} options
 */
export function createReservation({ userId, onChange }) {
  return createAttempts({
    entry: `seckill.reservation.${userId}`,
    path: '/api/reservations',
    body: ({ lines }) => ({ lines }),
    line: null,
    hasRoom: () => false,
    onChange,
  });
}

/**
 * The attempts to make one order.
 * @param {{entry: string, path: string, body: (attempt: Attempt) => object, line: ReturnType<typeof createLine> | null,
 *   hasRoom: () => boolean, onChange: (state: PurchaseState) => void}} options `entry` is where an attempt is stored
 */
function createAttempts({ entry, path, body, line, hasRoom, onChange }) {
  let running = false;
  /** Another buyer may be signed in: nothing is sent and told any more. */
  let isStopped = false;
  let wake = () => {};

  function publish(state) {
    // Who was signed out by the answer itself is told so.
    const isTold = !isStopped || (state.outcome?.kind === 'sign_in' && currentSession() === null);
    if (isTold) onChange({ phase: 'idle', attempt: 0, standing: null, waitMs: 0, code: null, resumed: false, outcome: null, ...state });
  }

  /** @returns {Attempt | null} */
  function stored() {
    const attempt = readEntry(entry);
    return typeof attempt?.key === 'string' ? attempt : null;
  }

  function keep(attempt) {
    attempt.keptAtMs = Date.now();
    writeEntry(entry, attempt);
  }

  /** The attempt whose outcome is not known yet. @returns {Attempt | null} */
  function unfinished() {
    const attempt = stored();
    return attempt?.uncertain ? attempt : null;
  }

  /** The attempt that has not ended, here, in another tab, or when the page was left. @returns {Attempt | null} */
  function underWay() {
    const attempt = stored();
    const isFresh = attempt !== null && Date.now() - attempt.keptAtMs < RESUME_AGE_MS_MAX;
    return attempt?.uncertain || isFresh ? attempt : inLine();
  }

  /** The attempt that stood in line when the page was left. @returns {Attempt | null} */
  function inLine() {
    const place = hasRoom() ? line.kept() : null;
    return place?.attempt && Date.now() - place.askedAtMs < RESUME_AGE_MS_MAX ? place.attempt : null;
  }

  /** Whether the page should finish that attempt by itself. @returns {boolean} */
  function shouldResume() {
    const attempt = underWay();
    return attempt !== null && (!attempt.uncertain || Date.now() - attempt.madeAtMs < RESUME_AGE_MS_MAX);
  }

  /**
   * Buy, or find out what became of the last try. While one is under way this does nothing.
   * @param {Partial<Attempt>} wanted ignored when an attempt is under way, also in another tab: that one is repeated
   * @returns {Promise<void>} when the outcome has been published
   */
  async function start(wanted) {
    if (running || isStopped) return;
    running = true;
    const attempt = underWay() ?? { key: newKey(), ...wanted, madeAtMs: Date.now(), uncertain: false };
    try {
      keep(attempt);
      const outcome = await carryOut(attempt, attempt.uncertain);
      // While a tab may send it again, another tab has to find its key.
      if (!attempt.uncertain && stored()?.key === attempt.key) removeEntry(entry);
      publish(outcome.kind === 'left' ? {} : { phase: 'done', outcome });
    } finally {
      running = false;
    }
  }

  async function carryOut(attempt, resumed) {
    // What may be an order already is asked for as it was sent.
    let needsTicket = hasRoom() && !resumed && line.ticket() === null;
    for (let number = 1; ; number += 1) {
      // After its end in another tab, that tab has begun the next one.
      const isReplaced = (stored()?.key ?? attempt.key) !== attempt.key;
      if (isStopped || isReplaced) return { kind: 'left' };
      if (needsTicket) {
        const turnedAway = await standInLine(attempt);
        if (turnedAway !== null) return turnedAway;
        needsTicket = false;
      }
      publish({ phase: 'sending', attempt: number, resumed });
      const answer = await send(attempt);
      if (answer.kind === 'line' && number < ATTEMPTS_MAX) {
        needsTicket = true;
        continue;
      }
      if (answer.kind === 'line') return { kind: 'refused', code: answer.code, retryAfterMs: null };
      if (answer.kind !== 'retry') return answer;
      const waitMs = pauseMs(number, answer.retryAfterMs);
      if (number >= ATTEMPTS_MAX || waitMs > RETRY_AFTER_MS_MAX) {
        const kind = attempt.uncertain ? 'unknown' : 'unavailable';
        return { kind, code: answer.code, retryAfterMs: answer.retryAfterMs };
      }
      publish({ phase: 'waiting', attempt: number, waitMs, code: answer.code, resumed });
      await pause(waitMs);
    }
  }

  function pause(waitMs) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** @returns {Promise<Outcome | null>} why there is no ticket, or null when there is one */
  async function standInLine(attempt) {
    publish({ phase: 'line' });
    try {
      const isIn = await line.wait(attempt, (standing) => publish({ phase: 'line', standing }), pause);
      return isIn ? null : { kind: 'left' };
    } catch (error) {
      const { status, code, retryAfterMs } = error;
      if (status === undefined) throw error;
      if (code === 'no_waiting_room') return null;
      if (status === 401) return { kind: 'sign_in', code, retryAfterMs };
      if (attempt.uncertain) return { kind: 'unknown', code, retryAfterMs };
      return { kind: error.retryable ? 'unavailable' : 'refused', code, retryAfterMs };
    }
  }

  async function send(attempt) {
    const uncertainBefore = attempt.uncertain;
    // Written down first: if the page dies now, the next one knows that a request may have left.
    attempt.uncertain = true;
    keep(attempt);
    try {
      const order = await post(path, body(attempt), { 'Idempotency-Key': attempt.key, ...ticketHeader() });
      attempt.uncertain = false;
      return { kind: order.status === 'queued' ? 'queued' : 'sold', order };
    } catch (error) {
      return evaluateFailure(error, attempt, uncertainBefore);
    }
  }

  function ticketHeader() {
    const ticket = line?.ticket() ?? null;
    return ticket === null ? {} : { 'Purchase-Ticket': ticket };
  }

  function evaluateFailure(error, attempt, uncertainBefore) {
    const { status, code, changed, retryable, retryAfterMs, itemId } = error;
    if (status === undefined) throw error;
    // Decided before the gate: this request has changed nothing, an earlier one with the key may have.
    if (line !== null && status === 403 && code.startsWith('ticket_')) {
      attempt.uncertain = uncertainBefore;
      keep(attempt);
      line.dropTicket();
      return { kind: 'line', code, retryAfterMs };
    }
    // "In progress" is an earlier request with this key: its outcome is what we are waiting for.
    const mayHaveChanged = changed === 'unknown' || code === 'request_in_progress';
    // The page of a proxy, which has no code of ours, and a body that came too slowly say nothing about an earlier request.
    const judged = LOOKED.includes(status) && code !== 'other' && !mayHaveChanged;
    attempt.uncertain = mayHaveChanged || (uncertainBefore && !judged);
    keep(attempt);
    if (status === 401) return { kind: 'sign_in', code, retryAfterMs };
    // A 409 may be called retryable as well, but that is for the buyer to judge, not for a timer.
    const passing = status === 429 || status >= 500;
    if (mayHaveChanged || (passing && retryable)) return { kind: 'retry', code, retryAfterMs };
    return { kind: attempt.uncertain ? 'unknown' : 'refused', code, retryAfterMs, itemId };
  }

  /** Stop waiting and ask now, as when the connection is back. */
  function hurry() {
    wake();
  }

  /** Send nothing any more, as when the buyer signs out: the next cookie is another buyer's. */
  function stop() {
    isStopped = true;
    line?.stop();
    wake();
  }

  /** Leave the line. */
  async function leave() {
    await line.leave();
    wake();
  }

  return { start, unfinished, underWay, shouldResume, hurry, stop, leave };
}

/** The pause before the next try: at least what the server asked, spread out so that buyers do not return in step. */
function pauseMs(number, retryAfterMs) {
  const ceiling = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** number);
  const backoffMs = ceiling / 2 + Math.random() * (ceiling / 2);
  return retryAfterMs === null ? backoffMs : Math.max(backoffMs, retryAfterMs + Math.random() * 500);
}

/** A random UUID; `randomUUID` is missing on plain http addresses other than localhost. */
export function newKey() {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
