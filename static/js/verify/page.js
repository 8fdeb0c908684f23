/** The page that checks a draw: it reads the files that are chosen, or the proof of an item of this shop. */
'use strict';
(() => {
  const { read, check } = globalThis.DrawProof;
  const words = globalThis.VERIFY_WORDS;
  const byId = (id) => document.getElementById(id);
  const asked = new URLSearchParams(location.hash.slice(1));

  const stored = () => {
    try {
      return JSON.parse(localStorage.getItem('seckill.language'));
    } catch {
      return null;
    }
  };
  let language = [stored(), ...navigator.languages.map((tag) => tag.slice(0, 2))].find((code) => Object.hasOwn(words, code)) ?? 'en';
  const say = (key, parameters = {}) => words[language][key].replace(/\{(\w+)\}/g, (_, name) => String(parameters[name]));
  const paragraph = (text) => Object.assign(document.createElement('p'), { textContent: text });

  function drawWords() {
    document.documentElement.lang = language;
    document.title = say('title');
    for (const element of document.querySelectorAll('[data-word]')) element.textContent = say(element.dataset.word);
    byId('language').textContent = words[language === 'en' ? 'zh' : 'en'].name;
  }

  function show(tone, heading, ...sentences) {
    const result = byId('result');
    result.hidden = false;
    result.dataset.tone = tone;
    const title = Object.assign(document.createElement('h2'), { textContent: heading });
    result.replaceChildren(title, ...sentences.map(paragraph));
  }

  /** The proof as text: a file, or that of the item in the address of this page. */
  async function proofText() {
    const file = byId('proof').files[0];
    if (file !== undefined) return file.text();
    if (location.protocol === 'file:') return null;
    if (!asked.has('item')) return null;
    const answer = await fetch(`/api/items/${Number(asked.get('item'))}/draw/entries`);
    return answer.text();
  }

  async function run() {
    show('', say('busy'));
    // The browser shows this sentence before it computes.
    await new Promise((resolve) => setTimeout(resolve, 50));
    try {
      const text = await proofText();
      if (text === null) return show('bad', say('noFile'));
      const earlier = byId('announced').files[0];
      const announced = earlier === undefined ? null : JSON.parse(await earlier.text());
      const entry = byId('entry').value.trim() || (announced?.entry ?? null);
      const proof = read(text);
      const { faults, unchecked } = await check(proof, { announced, entry });
      if (faults.length > 0) return show('bad', say('bad'), ...faults.map((fault) => say(fault)));
      const place = proof.entries.find((listed) => listed.entry === entry)?.place;
      show(
        'good',
        say('good'),
        say('goodText', { entries: proof.entries.length }),
        ...(entry === null ? [] : [say('mine', { place })]),
        ...(unchecked === null ? [] : [say('unchecked', { address: unchecked })]),
      );
    } catch {
      show('bad', say('bad'), say('unreadable'));
    }
  }

  byId('language').addEventListener('click', () => {
    language = language === 'en' ? 'zh' : 'en';
    drawWords();
  });
  byId('form').addEventListener('submit', (event) => {
    event.preventDefault();
    run();
  });
  // A file has no shop to go to.
  if (location.protocol !== 'file:') byId('home').href = '/';
  byId('entry').value = asked.get('entry') ?? '';
  drawWords();
  document.documentElement.dataset.ready = '';
  if (asked.has('item') && location.protocol !== 'file:') run();
})();
