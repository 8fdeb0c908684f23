/**
 * What this browser keeps of the draws that its buyer has entered: what was announced, and the signed promise of the entry.
 * The page keeps it by itself, so that the buyer has something to show when the shop says something else later.
 */
import { readEntry, writeEntry } from './storage.js';

const NAME = 'seckill.draws';
/** The draws that are kept; the oldest one goes first. */
const DRAWS_MAX = 50;

const keyOf = (item, user) => `${item}/${user}`;
const all = () => readEntry(NAME) ?? {};

/**
 * @typedef {{announcement: string, promise: string, entry: string}} Kept
 * @param {number} item @param {number} user @returns {Kept | null}
 */
export function keptDraw(item, user) {
  return all()[keyOf(item, user)] ?? null;
}

/**
 * Keep what a draw announces and promises now. What was announced earlier stays, unless the present text only adds to it.
 * @param {number} item @param {number} user @param {{announcement: string, entry: any}} now
 * @returns {boolean} whether the draw announces something else than before
 */
export function keepDraw(item, user, { announcement, entry }) {
  const key = keyOf(item, user);
  const { [key]: earlier, ...others } = all();
  const isOther = earlier !== undefined && !announcement.startsWith(earlier.announcement);
  const kept = { announcement: isOther ? earlier.announcement : announcement, promise: entry.promise, entry: entry.entry };
  const draws = Object.entries({ ...others, [key]: kept });
  writeEntry(NAME, Object.fromEntries(draws.slice(-DRAWS_MAX)));
  return isOther;
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
