/**
 * SHA-256 of short messages, in one call: a million promises of the browser’s own would take too long.
 */
'use strict';
globalThis.sha256 = (() => {
  /** The first 32 bits of the fractional parts of a root of the first primes. */
  const fractions = (count, root) => {
    const found = [];
    for (let number = 2; found.length < count; number += 1) {
      let prime = true;
      for (let factor = 2; factor * factor <= number; factor += 1) prime &&= number % factor !== 0;
      if (prime) found.push((root(number) % 1) * 2 ** 32);
    }
    return Int32Array.from(found, (value) => value | 0);
  };
  const K = fractions(64, Math.cbrt);
  const START = fractions(8, Math.sqrt);
  const words = new Int32Array(64);
  const state = new Int32Array(8);
  let padded = new Uint8Array(256);

  function block(at) {
    for (let i = 0, p = at; i < 16; i += 1, p += 4) {
      words[i] = (padded[p] << 24) | (padded[p + 1] << 16) | (padded[p + 2] << 8) | padded[p + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = words[i - 15];
      const y = words[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      words[i] = (words[i - 16] + s0 + words[i - 7] + s1) | 0;
    }
    let a = state[0];
    let b = state[1];
    let c = state[2];
    let d = state[3];
    let e = state[4];
    let f = state[5];
    let g = state[6];
    let h = state[7];
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + words[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }

  /** The hash of several parts, one after the other. @param {Uint8Array[]} parts @returns {Uint8Array} */
  return (...parts) => {
    let length = 0;
    for (const part of parts) length += part.length;
    const end = (length + 72) & ~63;
    if (padded.length < end) padded = new Uint8Array(end);
    let at = 0;
    for (const part of parts) {
      for (let i = 0; i < part.length; i += 1) padded[at + i] = part[i];
      at += part.length;
    }
    padded[length] = 0x80;
    padded.fill(0, length + 1, end);
    for (let i = 1, bits = length * 8; bits > 0; i += 1, bits = Math.floor(bits / 256)) padded[end - i] = bits;
    for (let i = 0; i < 8; i += 1) state[i] = START[i];
    for (let start = 0; start < end; start += 64) block(start);
    const hash = new Uint8Array(32);
    for (let i = 0; i < 32; i += 1) hash[i] = state[i >> 2] >>> (24 - 8 * (i & 3));
    return hash;
  };
})();
