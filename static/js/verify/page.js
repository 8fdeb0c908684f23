/** The page that checks a draw: it reads the files that are chosen, and nothing else. */
'use strict';
(() => {
  const { DrawProof, DrawTexts, VERIFY_WORDS: words } = globalThis;
  const byId = (id) => document.getElementById(id);

  const stored = () => {
    try {
      return JSON.parse(localStorage.getItem('seckill.language'));
    } catch {
      return null;
    }
  };
  let language = [stored(), ...navigator.languages.map((tag) => tag.slice(0, 2))].find((code) => Object.hasOwn(words, code)) ?? 'en';
  const say = (key, parameters = {}) => words[language][key].replace(/\{(\w+)\}/g, (_, name) => String(parameters[name]));
  const element = (tag, text, attributes = {}) => Object.assign(document.createElement(tag), { textContent: text, ...attributes });
  const instant = (micros) => new Date(micros / 1000).toLocaleString(language, { dateStyle: 'medium', timeStyle: 'medium' });

  function drawWords() {
    document.documentElement.lang = language;
    document.title = say('title');
    for (const place of document.querySelectorAll('[data-word]')) place.textContent = say(place.dataset.word);
    const other = language === 'en' ? 'zh' : 'en';
    byId('language').textContent = words[other].name;
    byId('language').title = new Intl.DisplayNames([language], { type: 'language' }).of(other);
  }

  /** @param {string} tone @param {string} heading @param {...HTMLElement} children */
  function show(tone, heading, ...children) {
    const result = byId('result');
    result.hidden = false;
    result.dataset.tone = tone;
    result.replaceChildren(element('h2', heading), ...children);
  }

  const sentence = (key, parameters) => element('p', say(key, parameters));

  /** What the proof says, to compare with what its reader knows. */
  function factsOf(facts) {
    const rows = [
      ['item', facts.item],
      ['units', facts.units],
      ['count', facts.entries],
      ['closes', instant(facts.closes)],
      ['listed', instant(facts.listed)],
      ['round', facts.round],
      ['rules', facts.rules],
      ['head', facts.root],
      ['key', facts.shop],
    ];
    const list = element('dl', '', { className: 'verify-facts' });
    for (const [name, value] of rows) {
      const row = element('div', '');
      row.append(element('dt', say(`fact_${name}`)), element('dd', String(value)));
      list.append(row);
    }
    return list;
  }

  /** What the place of the buyer means. */
  function mineOf({ mine, entries, units }) {
    if (mine === null) return [];
    const { place } = mine;
    return [sentence('mine', { place, entries }), sentence(place <= units ? 'won' : 'lost', { ahead: place - 1, units })];
  }

  const textOf = async (file) => DrawTexts.decode(new Uint8Array(await file.arrayBuffer()));

  async function run() {
    const proof = byId('proof').files[0];
    if (proof === undefined) return show('bad', say('noFile'));
    show('', say('busy'));
    // The browser shows this sentence before it computes.
    await new Promise((resolve) => setTimeout(resolve, 50));
    try {
      const kept = byId('saved').files[0];
      const known = kept === undefined ? {} : DrawTexts.saved(await textOf(kept));
      const { faults, facts } = DrawProof.check(await textOf(proof), known);
      if (faults.length > 0) return show('bad', say('bad'), ...faults.map((fault) => sentence(fault)));
      const kind = facts.isPublic ? 'good' : 'local';
      const announcement = typeof known.announced === 'string' ? [sentence(facts.isListKept ? 'keptList' : 'keptRules')] : [];
      const found = [sentence(`${kind}Text`, { entries: facts.entries }), ...mineOf(facts), ...announcement];
      show(kind, say(kind), ...found, factsOf(facts), sentence('compare'));
    } catch {
      // A file that the browser cannot read, or that is too long for a text.
      show('bad', say('bad'), sentence('unreadable'));
    }
  }

  byId('language').addEventListener('click', () => {
    language = language === 'en' ? 'zh' : 'en';
    drawWords();
    byId('result').hidden = true;
  });
  byId('form').addEventListener('submit', (event) => {
    event.preventDefault();
    run();
  });
  // A file has no shop to go to.
  if (location.protocol !== 'file:') byId('home').href = '/';
  drawWords();
  document.documentElement.dataset.ready = '';
})();
