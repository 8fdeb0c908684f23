/**
 * What this browser keeps of the draws that its buyer has entered: what was announced, and the signed promise of the entry.
 * The page keeps it by itself, so that the buyer has something to show when the shop says something else later.
 */
import { readEntry, writeEntry } from './storage.js';

const NAME = 'seckill.draws';
/** The draws that are kept; the oldest one goes first. */
const DRAWS_MAX = 50;
/** The lines of the rules that name the round. */
const ROUND = /\nchain (\w+)\nround (\d+)\n/;

const keyOf = (item, user) => `${item}/${user}`;
const all = () => readEntry(NAME) ?? {};

/**
 * @typedef {{announcement: string, promise: string, entry: string}} Kept
 * @param {number} item @param {number} user @returns {Kept | null}
 */
export function keptDraw(item, user) {
  return all()[keyOf(item, user)] ?? null;
}

/** The time of the round, as docs/draw.md has it; no number if the rules name none. @param {string} rules */
function roundAtMs(rules) {
  const [, chain, round] = ROUND.exec(rules) ?? [];
  return (chain === 'local' ? Number(round) : 1692803367 + (Number(round) - 1) * 3) * 1000;
}

/**
 * Keep what a draw announces and promises now. What was announced earlier stays, unless the present text only adds to it;
 * and the promise stays, unless the buyer has changed the entry on this page: else a shop could replace its own words.
 * @param {number} item @param {number} user
 * @param {{rules: string, head: string | null, entry: any, isOwnChange: boolean}} now
 * @returns {string[]} the sentences about what does not fit to what was kept
 */
export function keepDraw(item, user, { rules, head, entry, isOwnChange }) {
  const key = keyOf(item, user);
  const { [key]: earlier, ...others } = all();
  const announced = `${rules}${head ?? ''}`;
  // After the round a shop could make a second list. Its clock could lie about that, so the buyer's counts.
  const announcement = Date.now() < roundAtMs(rules) ? announced : rules;
  const added = earlier === undefined || announcement.startsWith(earlier.announcement);
  const isOtherEntry = earlier !== undefined && !isOwnChange && entry.promise !== earlier.promise;
  const own = isOtherEntry ? earlier : entry;
  const kept = { announcement: added ? announcement : earlier.announcement, promise: own.promise, entry: own.entry };
  const draws = Object.entries({ ...others, [key]: kept });
  writeEntry(NAME, Object.fromEntries(draws.slice(-DRAWS_MAX)));
  const isChanged = !announced.startsWith(kept.announcement);
  return [...(isChanged ? ['draw.changed'] : []), ...(isOtherEntry ? ['draw.otherEntry'] : [])];
}

/** The buyer has taken the entry back. @param {number} item @param {number} user */
export function forgetDraw(item, user) {
  const { [keyOf(item, user)]: _, ...others } = all();
  writeEntry(NAME, others);
}

/** Whether what is kept outlives this page. */
export function isKeptForLong() {
  try {
    return localStorage.getItem(NAME) !== null;
  } catch {
    return false;
  }
}
