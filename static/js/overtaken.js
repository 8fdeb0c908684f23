/**
 * Late states of an order: an answer that was read before a change may arrive after the event of that change.
 */
/** An order never goes back to a lower rank. */
const RANKS = { queued: 0, pending: 1, expired: 2, paid: 3, cancelled: 4, rejected: 4 };

/**
 * Whether the known state of an order is newer than the state that has just arrived.
 * @param {{status: string, extended_seconds?: number|null}} known @param {object} news of the same order
 */
export function isOvertaken(known, news) {
  const ahead = RANKS[known.status] - RANKS[news.status];
  const isExtended = ({ extended_seconds: seconds }) => (seconds ?? null) !== null;
  return ahead > 0 || (ahead === 0 && isExtended(known) && !isExtended(news));
}
