/**
 * The line in front of an item that has a waiting room: a place, then a ticket to buy with.
 *
 * The place is stored before anything else, so that a reload or a second tab goes on where this one
 * stood. A ticket is stored as long as it is good.
 */
import { post, remove } from './api.js';
import { serverNowMs } from './clock.js';
import { readEntry, removeEntry, writeEntry } from './storage.js';
// The browser’s own hash is missing over plain http from another machine, and slower for messages as short as these.
import './verify/sha256.js';

/** Failures in a row before the buyer is told. */
const FAILURES_MAX = 6;
const FAILURE_PAUSE_MS = 1_000;
/** How long numbers are tried before the page may breathe. */
const PROOF_BATCH_MS = 12;
/** Numbers that are tried between two looks at the clock. */
const PROOF_STEP = 256;
/** A proof that is about to expire is made again. */
const EXPIRY_MARGIN_S = 20;

/**
 * @param {{itemId: number, userId: number}} of
 */
export function createLine({ itemId, userId }) {
  const placeEntry = `seckill.place.${userId}.${itemId}`;
  const ticketEntry = `seckill.ticket.${userId}.${itemId}`;
  let hasLeft = false;
  let isStopped = false;

  /** The ticket in hand, if it is still good. @returns {string | null} */
  function ticket() {
    const entry = readEntry(ticketEntry);
    return typeof entry?.ticket === 'string' && Date.parse(entry.expiresAt) > serverNowMs() ? entry.ticket : null;
  }

  /** The service does not take it. */
  function dropTicket() {
    removeEntry(ticketEntry);
  }

  /** The place, and the attempt that stands there. A second tab goes on with the same attempt, and buys once. */
  function kept() {
    return readEntry(placeEntry);
  }

  /**
   * Waits for a ticket.
   * @param {object} attempt what is bought then
   * @param {(standing: any) => void} onMove told of each answer of `POST /api/items/{id}/ticket`
   * @param {(ms: number) => Promise<void>} pause
   * @returns {Promise<boolean>} false when the buyer has left
   * @throws {import('./api.js').ApiError} when there is nothing to wait for
   */
  async function wait(attempt, onMove, pause) {
    let failures = 0;
    hasLeft = isStopped;
    for (;;) {
      const place = readEntry(placeEntry);
      try {
        const standing = await post(`/api/items/${itemId}/ticket`, shown(place));
        failures = 0;
        if (hasLeft) return false;
        if (standing.state === 'admitted') {
          removeEntry(placeEntry);
          writeEntry(ticketEntry, { ticket: standing.ticket, expiresAt: standing.expires_at });
          return true;
        }
        const now = { place: standing.place, attempt, askedAtMs: Date.now(), ...usable(place) };
        writeEntry(placeEntry, now);
        onMove(standing);
        const nextLook = pause(standing.ask_again_ms);
        if (standing.challenge && !now.altcha) {
          const proof = await answer(standing.challenge);
          if (!hasLeft) writeEntry(placeEntry, { ...now, ...proof });
        }
        await nextLook;
      } catch (error) {
        const stale = error.code === 'ticket_invalid' && place !== null;
        const unproved = error.code === 'challenge_failed' && error.challenge;
        const passing = error.retryable && (error.status === 429 || error.status >= 500 || error.status === 0);
        failures += 1;
        if (failures > FAILURES_MAX || !(stale || unproved || passing)) throw error;
        if (stale) removeEntry(placeEntry);
        else if (unproved) writeEntry(placeEntry, { ...place, ...(await answer(error.challenge)) });
        else await pause(error.retryAfterMs ?? FAILURE_PAUSE_MS);
      }
      if (hasLeft) return false;
    }
  }

  /** Leaves the line: the place is lost. */
  async function leave() {
    hasLeft = true;
    removeEntry(placeEntry);
    try {
      await remove(`/api/items/${itemId}/ticket`);
    } catch (error) {
      // Who does not ask any more is passed by.
      if (error.status === undefined) throw error;
    }
  }

  /** Asks no more, and keeps the place: the next cookie is another buyer's. */
  function stop() {
    isStopped = true;
    hasLeft = true;
  }

  return { ticket, dropTicket, kept, wait, leave, stop };
}

/** The proof that is kept, while the service still takes it. */
function usable(place) {
  const good = typeof place?.altcha === 'string' && place.expiresAt > serverNowMs() / 1000 + EXPIRY_MARGIN_S;
  return good ? { altcha: place.altcha, expiresAt: place.expiresAt } : {};
}

function shown(place) {
  const body = {};
  if (typeof place?.place === 'string') body.place = place.place;
  if (typeof place?.altcha === 'string') body.altcha = place.altcha;
  return body;
}

/** Solves a challenge in ALTCHA’s format (proof of work v2). @returns {Promise<{altcha: string, expiresAt: number}>} */
async function answer(challenge) {
  const { salt, nonce, keyPrefix, expiresAt } = challenge.parameters;
  const fixed = fromHex(salt + nonce);
  const input = new Uint8Array(fixed.length + 4);
  input.set(fixed);
  const view = new DataView(input.buffer);
  let pausedAt = performance.now();
  for (let counter = 0; ; counter += 1) {
    view.setUint32(fixed.length, counter);
    // The key of a counter: SHA-256 of salt, nonce and counter.
    const key = globalThis.sha256(input);
    // Most keys differ in their first byte, and text costs more than hashing.
    if (keyPrefix.startsWith(toHex(key.subarray(0, 1))) && toHex(key).startsWith(keyPrefix)) {
      const solution = { counter, derivedKey: toHex(key) };
      return { altcha: btoa(JSON.stringify({ challenge, solution })), expiresAt };
    }
    if (counter % PROOF_STEP === 0 && performance.now() - pausedAt > PROOF_BATCH_MS) {
      await breathe();
      pausedAt = performance.now();
    }
  }
}

/** Lets the page do something else. By a message, since timers of a page in the background rest for a second. */
function breathe() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
