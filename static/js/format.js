/**
 * Money, counts and times as people read them.
 */
import { languageTag } from './strings.js';

/**
 * The decimal places of currencies that have others than 2, by ISO 4217. `Intl` has a table of its own for what people
 * use in daily life, which differs from the minor units in which amounts are counted.
 */
const MINOR_DIGITS = {
  BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, UYI: 0, VND: 0, VUV: 0,
  XAF: 0, XOF: 0, XPF: 0, BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3, CLF: 4, UYW: 4,
};
/** @type {Map<string, Intl.NumberFormat>} */
const moneyFormats = new Map();
const countFormat = new Intl.NumberFormat(languageTag);
const dateTimeFormat = new Intl.DateTimeFormat(languageTag, { dateStyle: 'medium', timeStyle: 'short' });
const timeFormat = new Intl.DateTimeFormat(languageTag, { timeStyle: 'short' });

/**
 * Minor units as money.
 * @param {number} amount in minor units: cents, or yen @param {string} currency @returns {string} such as `$19.90`
 */
export function money(amount, currency) {
  const digits = minorDigits(currency);
  if (!moneyFormats.has(currency)) {
    const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
    moneyFormats.set(currency, new Intl.NumberFormat(languageTag, { style: 'currency', currency, ...places }));
  }
  return moneyFormats.get(currency).format(amount / 10 ** digits);
}

/** The decimal places of the minor unit. @param {string} currency @returns {number} 2 for `USD` */
export function minorDigits(currency) {
  return MINOR_DIGITS[currency] ?? 2;
}

/** A whole number with separators. @param {number} value @returns {string} */
export function count(value) {
  return countFormat.format(value);
}

/** An RFC 3339 time in the reader's own zone. @param {string} instant @returns {string} */
export function dateTime(instant) {
  return dateTimeFormat.format(new Date(instant));
}

/**
 * The sale window, the day named once when both ends share it.
 * @param {string} from RFC 3339 @param {string} to RFC 3339
 * @returns {{from: string, to: string}}
 */
export function saleWindow(from, to) {
  const sameDay = new Date(from).toDateString() === new Date(to).toDateString();
  return { from: dateTime(from), to: sameDay ? timeFormat.format(new Date(to)) : dateTime(to) };
}

/**
 * A span split for a countdown. Rounds up, so that zero is shown only when the time has come.
 * @param {number} spanMs milliseconds, negative counts as zero
 * @returns {{days: number, clock: string}} `clock` is `HH:MM:SS`
 */
export function countdown(spanMs) {
  const seconds = Math.max(0, Math.ceil(spanMs / 1000));
  const part = (value) => String(value).padStart(2, '0');
  return {
    days: Math.floor(seconds / 86_400),
    clock: `${part(Math.floor(seconds / 3_600) % 24)}:${part(Math.floor(seconds / 60) % 60)}:${part(seconds % 60)}`,
  };
}

/**
 * A short span, for a hold: `4:59`, or `1:04:59` from an hour on.
 * @param {number} spanMs milliseconds @returns {string}
 */
export function shortSpan(spanMs) {
  const seconds = Math.max(0, Math.ceil(spanMs / 1000));
  const part = (value) => String(value).padStart(2, '0');
  const hours = Math.floor(seconds / 3_600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours > 0 ? `${hours}:${part(minutes)}:${part(seconds % 60)}` : `${minutes}:${part(seconds % 60)}`;
}

/** A length of time in words, such as `5 min`. @param {number} seconds @returns {string} */
export function duration(seconds) {
  const unit = seconds >= 120 || seconds % 60 === 0 ? 'minute' : 'second';
  const value = unit === 'minute' ? Math.round(seconds / 60) : seconds;
  return new Intl.NumberFormat(languageTag, { style: 'unit', unit, unitDisplay: 'short' }).format(value);
}

/** The time of day with seconds. @param {number} epochMs @returns {string} `HH:MM:SS`, local zone */
export function clockFace(epochMs) {
  return new Date(epochMs).toTimeString().slice(0, 8);
}
