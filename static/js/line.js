/**
 * The line in front of an item that has a waiting room: a place, then a ticket to buy with.
 *
 * The place is stored before anything else, so that a reload or a second tab goes on where this one
 * stood. A ticket is stored as long as it is good.
 */
import { post } from './api.js';
import { readEntry, removeEntry, writeEntry } from './storage.js';

/** Failures in a row before the buyer is told. */
const FAILURES_MAX = 6;
const FAILURE_PAUSE_MS = 1_000;
/** Numbers that are tried before the page may breathe. */
const PROOF_BATCH = 512;

/**
 * @param {{itemId: number, userId: number}} of
 */
export function createLine({ itemId, userId }) {
  const placeEntry = `seckill.place.${userId}.${itemId}`;
  const ticketEntry = `seckill.ticket.${userId}.${itemId}`;

  /** The ticket in hand, if it is still good. @returns {string | null} */
  function ticket() {
    const entry = readEntry(ticketEntry);
    return typeof entry?.ticket === 'string' && Date.parse(entry.expiresAt) > Date.now() ? entry.ticket : null;
  }

  /** The service does not take it. */
  function dropTicket() {
    removeEntry(ticketEntry);
  }

  /**
   * Waits for a ticket.
   * @param {(position: number) => void} onMove told how many stand in front
   * @param {(ms: number) => Promise<void>} pause
   * @throws {import('./api.js').ApiError} when there is nothing to wait for
   */
  async function wait(onMove, pause) {
    let failures = 0;
    for (;;) {
      const place = readEntry(placeEntry);
      try {
        const standing = await post(`/api/items/${itemId}/ticket`, shown(place));
        failures = 0;
        if (standing.state === 'admitted') {
          removeEntry(placeEntry);
          writeEntry(ticketEntry, { ticket: standing.ticket, expiresAt: standing.expires_at });
          return;
        }
        const kept = { place: standing.place, proof: place?.place === standing.place ? place.proof : null };
        writeEntry(placeEntry, kept);
        onMove(standing.position);
        const nextLook = pause(standing.ask_again_ms);
        if (standing.proof_bits > 0 && !kept.proof) {
          writeEntry(placeEntry, { ...kept, proof: await prove(standing.place, standing.proof_bits) });
        }
        await nextLook;
      } catch (error) {
        const stale = error.code === 'ticket_invalid' && place !== null;
        const unproved = error.code === 'challenge_failed' && place?.place && !place.proof;
        const passing = error.retryable && (error.status === 429 || error.status >= 500 || error.status === 0);
        failures += 1;
        if (failures > FAILURES_MAX || !(stale || unproved || passing)) throw error;
        if (stale) removeEntry(placeEntry);
        else if (unproved) writeEntry(placeEntry, { ...place, proof: await prove(place.place, error.proofBits) });
        else await pause(error.retryAfterMs ?? FAILURE_PAUSE_MS);
      }
    }
  }

  return { ticket, dropTicket, wait };
}

function shown(place) {
  if (typeof place?.place !== 'string') return {};
  return place.proof ? { place: place.place, proof: place.proof } : { place: place.place };
}

/** Finds text that makes SHA-256 of `place:text` begin with so many zero bits. @returns {Promise<string>} */
async function prove(place, bits) {
  const encoder = new TextEncoder();
  for (let first = 0; ; first += PROOF_BATCH) {
    const numbers = Array.from({ length: PROOF_BATCH }, (_, at) => String(first + at));
    const hashes = numbers.map((number) => crypto.subtle.digest('SHA-256', encoder.encode(`${place}:${number}`)));
    const found = (await Promise.all(hashes)).findIndex((hash) => leadingZeros(hash) >= bits);
    if (found >= 0) return numbers[found];
  }
}

function leadingZeros(hash) {
  let zeros = 0;
  for (const byte of new Uint8Array(hash)) {
    if (byte !== 0) return zeros + Math.clz32(byte) - 24;
    zeros += 8;
  }
  return zeros;
}
