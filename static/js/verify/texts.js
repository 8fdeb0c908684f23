/**
 * The texts that a shop publishes of a draw, in their one strict form, as docs/draw.md has it: each is a pattern that
 * matches it from its first byte on.
 */
'use strict';
globalThis.DrawTexts = (() => {
  const QUICKNET = '52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971';
  const NUMBER = '(0|[1-9][0-9]{0,15})';
  const POSITIVE = '([1-9][0-9]{0,15})';
  const hex = (bytes) => `([0-9a-f]{${2 * bytes}})`;
  const pattern = (...lines) => new RegExp(lines.map((line) => `${line}\\n`).join(''), 'y');
  const SIGNATURE = pattern(`signature ${hex(64)}`);
  const RULES = pattern(
    'seckill draw rules 3',
    `shop ${hex(32)}`,
    `item ${POSITIVE}`,
    `units ${NUMBER}`,
    'party ([1-4])',
    `closes ${NUMBER}`,
    `chain (${QUICKNET}|local)`,
    `round ${POSITIVE}`,
  );
  const HEAD = pattern(
    'seckill draw head 3',
    `rules ${hex(32)}`,
    `item ${NUMBER}`,
    `entries ${NUMBER}`,
    `root ${hex(32)}`,
    `listed ${NUMBER}`,
  );
  const PROMISE_START = 'seckill draw promise 3';
  const PROMISE = pattern(PROMISE_START, `rules ${hex(32)}`, `item ${NUMBER}`, `entry ${hex(16)}`, `party ${hex(16)}`, `entered ${NUMBER}`);
  const BEACON = { [QUICKNET]: pattern(`beacon ${hex(48)}`), local: pattern(`beacon ${hex(64)}`) };
  const ENTRY = pattern(`${hex(16)} ${hex(16)} ${NUMBER}`);
  /** The points of small order, without the sign in the last bit: with such a key anybody can make signatures. */
  const SMALL_ORDER = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  ];
  /** A key in another form than its own: its number is not below 2^255 - 19. */
  const TOO_LARGE = /^(e[d-f]|f[0-9a-f])f{60}7f$/;

  class Unreadable extends Error {}

  /** The bytes of hexadecimal digits that a pattern has found. */
  function bytes(text) {
    const result = new Uint8Array(text.length / 2);
    const digit = (at) => (text.charCodeAt(at) & 15) + (text.charCodeAt(at) > 57 ? 9 : 0);
    for (let at = 0; at < result.length; at += 1) result[at] = 16 * digit(2 * at) + digit(2 * at + 1);
    return result;
  }

  /** A reader of one text. @param {string} text */
  function reader(text) {
    let at = 0;
    const isOver = () => at === text.length;
    function words(form) {
      form.lastIndex = at;
      const found = form.exec(text);
      if (found === null) throw new Unreadable();
      at = form.lastIndex;
      return found.slice(1);
    }
    /** The words of a text, the text, and its signature. */
    function signed(form) {
      const start = at;
      const found = words(form);
      const end = at;
      const [signature] = words(SIGNATURE);
      return { found, text: text.slice(start, end), signature: bytes(signature) };
    }
    return { isOver, words, signed, sinceStart: () => text.slice(0, at) };
  }

  function number(word) {
    const value = Number(word);
    if (!Number.isSafeInteger(value)) throw new Unreadable();
    return value;
  }

  function rulesOf(read) {
    const [shop, item, units, party, closes, chain, round] = read.words(RULES);
    const y = shop.slice(0, 62) + (parseInt(shop.slice(62), 16) & 0x7f).toString(16).padStart(2, '0');
    if (SMALL_ORDER.includes(y) || TOO_LARGE.test(y)) throw new Unreadable();
    const [itemId, unitCount, closesAt, roundNumber] = [item, units, closes, round].map(number);
    return { text: read.sinceStart(), shop, item: itemId, units: unitCount, partyMax: number(party), closes: closesAt, chain, round: roundNumber };
  }

  function headOf(read) {
    const { found, ...signed } = read.signed(HEAD);
    const [rules, item, entries, root, listed] = found;
    return { ...signed, rules, item: number(item), entries: number(entries), root, listed: number(listed) };
  }

  /** Reads a proof. @param {string} text */
  function proof(text) {
    const read = reader(text);
    const rules = rulesOf(read);
    const head = headOf(read);
    const announcement = read.sinceStart();
    const [beacon] = read.words(BEACON[rules.chain]);
    const entries = [];
    while (!read.isOver()) {
      const [id, party, place] = read.words(ENTRY);
      entries.push({ id, party, place: number(place) });
    }
    return { rules, head, announcement, beacon: bytes(beacon), entries };
  }

  /** Refuses what is no announcement: the rules, and the head behind them if it was known. @param {string} text */
  function announcement(text) {
    const read = reader(text);
    rulesOf(read);
    if (!read.isOver()) headOf(read);
    if (!read.isOver()) throw new Unreadable();
    return text;
  }

  /** Reads a promise. @param {string} text */
  function promise(text) {
    const read = reader(text);
    const { found, ...signed } = read.signed(PROMISE);
    if (!read.isOver()) throw new Unreadable();
    const [rules, item, entry, party, entered] = found;
    return { ...signed, rules, item: number(item), entry, party, entered: number(entered) };
  }

  /** What a buyer has saved: what was announced, a promise, or both, one behind the other. @param {string} text */
  function saved(text) {
    const start = text.indexOf(PROMISE_START);
    if (start === -1) return { announced: text, promise: null };
    return { announced: start === 0 ? null : text.slice(0, start), promise: text.slice(start) };
  }

  /** The text of a file; a byte that is none of a text is kept as a character that no pattern has. @param {Uint8Array} file */
  function decode(file) {
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(file);
  }

  return { proof, announcement, promise, saved, decode, bytes, Unreadable };
})();
