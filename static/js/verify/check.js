/**
 * Checks the published proof of a draw. It is written from docs/draw.md, shares no code with the service, and finds the
 * same faults as `seckill verify draw` (crates/verify).
 */
'use strict';
globalThis.DrawProof = (() => {
  const { sha256, curves, DrawTexts } = globalThis;
  const { bytes } = DrawTexts;
  const QUICKNET_KEY = bytes(
    '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a',
  );
  const QUICKNET_TAG = 'BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_';
  const QUICKNET_GENESIS = 1692803367n;
  const MICROS = 1000000n;
  const LEAF = Uint8Array.of(0);
  const NODE = Uint8Array.of(1);
  const bytesOf = (text) => new TextEncoder().encode(text);
  const hexOf = (hash) => Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');

  /** In microseconds since 1970. */
  function timeOf({ chain, round }) {
    const seconds = chain === 'local' ? BigInt(round) : QUICKNET_GENESIS + (BigInt(round) - 1n) * 3n;
    return seconds * MICROS;
  }

  /** Ed25519 of RFC 8032, without the cofactor. @param {string} key of the shop @param {Uint8Array} message */
  function isOfShop(key, message, signature) {
    const { Point } = curves.ed25519;
    const order = Point.Fn.ORDER;
    const numberOf = (part) => part.reduceRight((sum, byte) => sum * 256n + BigInt(byte), 0n);
    const times = (point, factor) => (factor === 0n ? Point.ZERO : point.multiplyUnsafe(factor));
    const s = numberOf(signature.subarray(32));
    if (s >= order) return false;
    try {
      const point = Point.fromBytes(bytes(key));
      const start = signature.subarray(0, 32);
      const hashed = curves.sha512(Uint8Array.of(...start, ...bytes(key), ...message));
      const expected = times(Point.BASE, s).subtract(times(point, numberOf(hashed) % order));
      return compare(expected.toBytes(), start) === 0;
    } catch {
      // The key is no point.
      return false;
    }
  }

  /** BLS on G1, as drand's scheme `bls-unchained-g1-rfc9380` has it. */
  function isOfDrand(round, signature) {
    const { shortSignatures } = curves.bls12_381;
    const number = new Uint8Array(8);
    new DataView(number.buffer).setBigUint64(0, BigInt(round));
    try {
      return shortSignatures.verify(signature, shortSignatures.hash(sha256(number), QUICKNET_TAG), QUICKNET_KEY);
    } catch {
      // The signature is no point.
      return false;
    }
  }

  function hasValue({ chain, round, shop }, rulesHash, signature) {
    if (chain !== 'local') return isOfDrand(round, signature);
    return isOfShop(shop, Uint8Array.of(...bytesOf('seckill draw local 3\n'), ...rulesHash), signature);
  }

  /** The Merkle tree hash of RFC 6962 over the hashes of leaves. */
  function rootOf(hashes, from = 0, to = hashes.length) {
    if (to === from) return sha256();
    if (to === from + 1) return hashes[from];
    let half = 1;
    while (half * 2 < to - from) half *= 2;
    return sha256(NODE, rootOf(hashes, from, from + half), rootOf(hashes, from + half, to));
  }

  function compare(left, right) {
    for (let at = 0; at < left.length; at += 1) if (left[at] !== right[at]) return left[at] - right[at];
    return 0;
  }

  const compareTexts = (left, right) => (left < right ? -1 : Number(left > right));

  /** The places of the entries in the list, in the order of the shuffle. */
  function shuffle(entries, parties, drawKey) {
    const keys = parties.map((party) => sha256(drawKey, party));
    // The first 48 bits of a key as a number: nearly every comparison ends there.
    const starts = Float64Array.from(keys, (key) => key.subarray(0, 6).reduce((sum, byte) => sum * 256 + byte, 0));
    return Uint32Array.from(entries, (_, at) => at).sort(
      (one, other) =>
        starts[one] - starts[other] ||
        compare(keys[one], keys[other]) ||
        compareTexts(entries[one].id, entries[other].id) ||
        one - other,
    );
  }

  /** Whether no party has too many entries, and none of several has the id of one of them. Friends stand side by side. */
  function partiesFit(shuffled, partyMax) {
    let start = 0;
    for (let at = 1; at <= shuffled.length; at += 1) {
      if (at < shuffled.length && shuffled[at].party === shuffled[start].party) continue;
      if (at - start > partyMax) return false;
      for (let friend = start; friend < at && at - start > 1; friend += 1) {
        if (shuffled[friend].id === shuffled[friend].party) return false;
      }
      start = at;
    }
    return true;
  }

  function listFaults({ rules, head, beacon, entries }, rulesHash) {
    const parties = entries.map(({ party }) => bytes(party));
    const rises = entries.every(({ id }, at) => at === 0 || entries[at - 1].id < id);
    const hashes = entries.map(({ id }, at) => sha256(LEAF, bytes(id), parties[at]));
    const isWhole = rises && head.entries === entries.length && hexOf(rootOf(hashes)) === head.root;
    const drawKey = sha256(bytesOf('seckill draw key 3\n'), beacon, bytes(head.root), rulesHash);
    const shuffled = Array.from(shuffle(entries, parties, drawKey), (at) => entries[at]);
    return {
      entries: !isWhole,
      parties: !partiesFit(shuffled, rules.partyMax),
      places: !shuffled.every(({ place }, at) => place === at + 1),
    };
  }

  function promiseFaults({ rules, head, entries }, rulesHash, promise) {
    const isOfRules = promise.rules === hexOf(rulesHash) && promise.item === rules.item;
    if (!isOfRules || !isOfShop(rules.shop, bytesOf(promise.text), promise.signature)) return { promise: true };
    const mine = entries.filter(({ id }) => id === promise.entry);
    return {
      missing_entry: mine.length === 0,
      party: mine.some(({ party }) => party !== promise.party),
      entered: promise.entered > head.listed,
    };
  }

  /** What a proof says, for people to compare. */
  function factsOf({ rules, head, announcement, entries }, rulesHash, { announced, promise }) {
    return {
      item: rules.item,
      units: rules.units,
      rules: hexOf(rulesHash),
      closes: rules.closes,
      round: rules.round,
      entries: head.entries,
      root: head.root,
      listed: head.listed,
      shop: rules.shop,
      isPublic: rules.chain !== 'local',
      isListKept: announced === announcement,
      mine: entries.find(({ id }) => id === promise?.entry) ?? null,
    };
  }

  /**
   * Checks a proof. No fault: the places are right; and if the facts say that the value is public, that is proven.
   * @param {string} text
   * @param {{announced?: string | null, promise?: string | null}} known texts that were kept
   * @returns {{faults: string[], facts: any}}
   */
  function check(text, { announced = null, promise = null } = {}) {
    let proof;
    let promised = null;
    try {
      proof = DrawTexts.proof(text);
      if (announced !== null) DrawTexts.announcement(announced);
      if (promise !== null) promised = DrawTexts.promise(promise);
    } catch (error) {
      if (!(error instanceof DrawTexts.Unreadable)) throw error;
      return { faults: ['unreadable'], facts: null };
    }
    const { rules, head, beacon } = proof;
    const rulesHash = sha256(bytesOf(rules.text));
    const knownAt = timeOf(rules);
    const isOfRules = head.rules === hexOf(rulesHash) && head.item === rules.item;
    const found = {
      round: knownAt <= BigInt(rules.closes),
      head: !isOfRules || !isOfShop(rules.shop, bytesOf(head.text), head.signature),
      late: head.listed < rules.closes || BigInt(head.listed) >= knownAt,
      beacon: !hasValue(rules, rulesHash, beacon),
      ...listFaults(proof, rulesHash),
      announcement: announced !== null && !proof.announcement.startsWith(announced),
      ...(promised === null ? {} : promiseFaults(proof, rulesHash, promised)),
    };
    const faults = Object.keys(found).filter((name) => found[name]);
    return { faults, facts: factsOf(proof, rulesHash, { announced, promise: promised }) };
  }

  return { check };
})();
