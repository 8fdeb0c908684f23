/**
 * JSON in localStorage, with memory behind it where the browser forbids storage.
 */
const memory = new Map();

/** @param {string} name @returns {any} the value, or null when absent or unreadable */
export function readEntry(name) {
  let written = memory.get(name) ?? null;
  try {
    written = localStorage.getItem(name) ?? written;
  } catch {
    // Storage is forbidden: this tab's memory has to do.
  }
  try {
    return JSON.parse(written);
  } catch {
    return null;
  }
}

/** @param {string} name @param {any} value anything JSON can carry */
export function writeEntry(name, value) {
  const written = JSON.stringify(value);
  try {
    localStorage.setItem(name, written);
    memory.delete(name);
  } catch {
    memory.set(name, written);
  }
}

/** @param {string} name */
export function removeEntry(name) {
  memory.delete(name);
  try {
    localStorage.removeItem(name);
  } catch {
    // Nothing was stored.
  }
}

/**
 * Be told when another page may have changed an entry: in another tab, or in this one while the browser had this page
 * set aside. Such a page hears of no change, and is shown again as it was.
 * @param {string} name @param {() => void} listener
 */
export function onForeignChange(name, listener) {
  addEventListener('storage', ({ key }) => (key === name || key === null) && listener());
  addEventListener('pageshow', ({ persisted }) => persisted && listener());
}
