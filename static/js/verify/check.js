/**
 * Checks the published proof of a draw. It is written from docs/draw.md, shares no code with the service, and finds the
 * same faults as `seckill verify draw` (crates/verify), except that it cannot check signatures of drand.
 */
'use strict';
globalThis.DrawProof = (() => {
  const { sha256 } = globalThis;
  const QUICKNET_KEY =
    '83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a';
  /** The values of hexadecimal digits by their character codes; the others have none. */
  const DIGITS = Array.from({ length: 103 }, (_, code) => parseInt(String.fromCharCode(code), 16));
  const LEAF = Uint8Array.of(0);
  const NODE = Uint8Array.of(1);
  const QUICKNET_GENESIS = 1692803367n;
  const bytesOf = (text) => new TextEncoder().encode(text);
  const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

  /** The bytes of hexadecimal digits; `null` for other text, or another length than asked for. */
  function bytes(text, length) {
    if (typeof text !== 'string' || text.length % 2 !== 0) return null;
    if (length !== undefined && text.length !== 2 * length) return null;
    const result = new Uint8Array(text.length / 2);
    for (let at = 0; at < result.length; at += 1) {
      const byte = DIGITS[text.charCodeAt(2 * at)] * 16 + DIGITS[text.charCodeAt(2 * at + 1)];
      if (!(byte >= 0)) return null;
      result[at] = byte;
    }
    return result;
  }

  /** Reads a proof: the draw in the first line, then an entry a line. @param {string} text */
  function read(text) {
    const [first, ...lines] = text.split('\n').filter((line) => line !== '');
    return { draw: JSON.parse(first), entries: lines.map((line) => JSON.parse(line)) };
  }

  /** Reads the lines of the rules; `null` for any other text. The first version has no parties. */
  function readRules(text) {
    const found =
      /^draw-rules ([12])\nitem \d+\ncloses [^\n]*\nbeacon (drand-quicknet|local) ([0-9a-f]+)\nround (\d{1,19})\n(?:party (\d{1,2})\n)?$/.exec(
        text ?? '',
      );
    if (found === null) return null;
    const [, version, beacon, key, number, party] = found;
    const known = beacon === 'drand-quicknet' ? key === QUICKNET_KEY : key.length === 64;
    if (!known || (version === '1') !== (party === undefined)) return null;
    return { beacon, key, round: BigInt(number), partyMax: Number(party ?? 1) };
  }

  function roundTime({ beacon, round }) {
    return Number(beacon === 'local' ? round : QUICKNET_GENESIS + (round - 1n) * 3n);
  }

  /** Whether the beacon has signed the round; of drand, always: it is told as unchecked. */
  async function isSigned({ beacon, key, round }, signature) {
    if (beacon !== 'local') return true;
    const message = new Uint8Array([...bytesOf('seckill beacon 1\n'), ...new Uint8Array(8)]);
    new DataView(message.buffer).setBigUint64(message.length - 8, round);
    const publicKey = await crypto.subtle.importKey('raw', bytes(key), 'Ed25519', false, ['verify']);
    return crypto.subtle.verify('Ed25519', publicKey, signature, message);
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

  /** An entry as bytes; `null` when it cannot be read. */
  function leafOf({ entry, party, place }) {
    const id = bytes(entry, 16);
    const group = party === undefined || party === null ? id : bytes(party, 16);
    return id && group && Number.isSafeInteger(place) ? { id, party: group, place } : null;
  }

  /**
   * Checks a proof. No fault: the places are right.
   * @param {{draw: any, entries: any[]}} proof
   * @param {{announced?: any, entry?: string | null}} known the draw as it was published earlier, and an entry that must
   *   be in the list
   * @returns {Promise<{faults: string[], unchecked: string | null}>} `unchecked` is the address of a round to compare
   */
  async function check({ draw, entries }, { announced = null, entry = null } = {}) {
    const faults = [];
    if (announced !== null) {
      const same = (name) => announced[name] === undefined || announced[name] === null || announced[name] === draw[name];
      const kept = announced.rules === draw.rules && announced.commitment === draw.commitment;
      if (!kept || !same('root') || !same('entries')) faults.push('announcement');
    }
    if (entry !== null && !entries.some((listed) => listed.entry === entry)) faults.push('missing_entry');
    const [commitment, root, seed, value] = ['commitment', 'root', 'seed', 'beacon_value'].map((name) => bytes(draw[name], 32));
    const signature = bytes(draw.beacon_signature);
    const rules = readRules(draw.rules);
    const listedMs = Date.parse(draw.listed_at ?? '');
    if (!(commitment && root && seed && value && signature && rules) || Number.isNaN(listedMs)) {
      return { faults: [...faults, 'unreadable'], unchecked: null };
    }
    if (compare(sha256(bytesOf('seckill draw commitment 1\n'), seed, bytesOf(draw.rules)), commitment) !== 0) faults.push('seed');
    if (compare(sha256(signature), value) !== 0 || !(await isSigned(rules, signature))) faults.push('beacon');
    if (listedMs >= roundTime(rules) * 1000) faults.push('late');
    const leaves = entries.map(leafOf);
    if (leaves.includes(null)) return { faults: [...faults, 'unreadable'], unchecked: null };
    leaves.sort((one, other) => compare(one.id, other.id));
    const twice = leaves.some((leaf, at) => at > 0 && compare(leaf.id, leaves[at - 1].id) === 0);
    const hashes = leaves.map((leaf) => sha256(LEAF, leaf.id, leaf.party));
    if (twice || draw.entries !== leaves.length || compare(rootOf(hashes), root) !== 0) faults.push('entries');
    const drawKey = sha256(bytesOf('seckill draw key 1\n'), seed, value, root);
    const keys = leaves.map((leaf) => sha256(drawKey, leaf.party));
    // The first 48 bits of a key as a number: nearly every comparison ends there.
    const starts = Float64Array.from(keys, (key) => key.subarray(0, 6).reduce((sum, byte) => sum * 256 + byte, 0));
    const order = Uint32Array.from(leaves, (_, at) => at).sort(
      (one, other) => starts[one] - starts[other] || compare(keys[one], keys[other]) || one - other,
    );
    if (!order.every((leaf, at) => leaves[leaf].place === at + 1)) faults.push('places');
    // Friends stand side by side: the entry that is too many has the party of the one so far in front of it.
    const tooMany = (leaf, at) => at >= rules.partyMax && compare(leaves[leaf].party, leaves[order[at - rules.partyMax]].party) === 0;
    if (order.some(tooMany)) faults.push('parties');
    const address = `https://api.drand.sh/52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971/public/${rules.round}`;
    return { faults, unchecked: rules.beacon === 'local' ? null : address };
  }

  return { read, check, hexOf };
})();
