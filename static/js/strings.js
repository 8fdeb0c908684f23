/**
 * The sentences of all pages, one table per language.
 *
 * To add a language: copy `strings/en.js`, translate the values, and list it in `LANGUAGES`. Only
 * the table in use is fetched, beside the English one, which stands in for what it lacks. The
 * English in the HTML files is only what is shown before the scripts run.
 */
import { readEntry, writeEntry } from './storage.js';
import english from './strings/en.js';

/** What can be chosen: its own name for itself, and its tag for `lang` and for numbers and times. */
export const LANGUAGES = {
  en: { name: 'English', tag: 'en' },
  zh: { name: '中文', tag: 'zh-CN' },
};
const ENTRY = 'seckill.language';

/** The language in use: the reader's choice, else the first of the browser's that there is. */
export const language = chosen() ?? preferred() ?? 'en';
/** Its tag, such as `zh-CN`. */
export const languageTag = LANGUAGES[language].tag;

const table = language === 'en' ? english : (await import(`./strings/${language}.js`)).default;
const pluralRules = new Intl.PluralRules(languageTag);

/** Remember a language and show this page in it. @param {keyof typeof LANGUAGES} code */
export function chooseLanguage(code) {
  writeEntry(ENTRY, code);
  location.reload();
}

/**
 * One sentence.
 * @param {string} key a key of the table
 * @param {Record<string, string|number>} [parameters] values for `{name}`; `count` chooses the plural
 * @returns {string} the sentence, or the key itself when no table has it
 */
export function text(key, parameters = {}) {
  const entry = table[key] ?? english[key] ?? key;
  const sentence =
    typeof entry === 'string' ? entry : (entry[pluralRules.select(Number(parameters.count))] ?? entry.other);
  return sentence.replace(/\{(\w+)\}/g, (whole, name) => (name in parameters ? String(parameters[name]) : whole));
}

/** Whether there is such a sentence. @param {string} key @returns {boolean} */
export function hasText(key) {
  return key in english;
}

/**
 * What a refusal code means to a buyer.
 * @param {string} code a `code` of the HTTP contract, or `network`
 * @param {Record<string, string|number>} [parameters]
 * @returns {{title: string, detail: string}}
 */
export function explain(code, parameters = {}) {
  const known = hasText(`code.${code}`) ? code : 'other';
  const detailKey = `code.${known}.text`;
  return {
    title: text(`code.${known}`, parameters),
    detail: hasText(detailKey) ? text(detailKey, { code, ...parameters }) : '',
  };
}

function chosen() {
  const code = readEntry(ENTRY);
  return code in LANGUAGES ? code : null;
}

function preferred() {
  const codes = (navigator.languages ?? []).map((tag) => tag.split('-')[0]);
  return codes.find((code) => code in LANGUAGES);
}
