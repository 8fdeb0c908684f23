/**
 * Checks the public log of a sale, and receipts from it. It is written from docs/receipts.md, shares no code with the
 * service, and finds the same faults as `seckill verify` (crates/verify).
 */
'use strict';
globalThis.SaleLog = (() => {
  const { sha256 } = globalThis;
  /** How far clocks may differ, and how long a COMMIT may take, in microseconds. */
  const TOLERANCE = 5e6;
  const LEAF = Uint8Array.of(0);
  const NODE = Uint8Array.of(1);
  /** The values of hexadecimal digits by their character codes; the others have none. */
  const DIGITS = Array.from({ length: 103 }, (_, code) => parseInt(String.fromCharCode(code), 16));
  const encoder = new TextEncoder();
  const bytesOf = (text) => encoder.encode(text);
  const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  const leafOf = (entry) => sha256(LEAF, bytesOf(entry));

  const TIME = '(\\d{1,16})';
  const NAME = '([0-9a-f]{32})';
  /** The words of each kind of line behind the first two lines. */
  const LINES = {
    key: '([0-9a-f]{64})',
    head: `(\\d{1,15}) ([0-9a-f]{64}) ${TIME} (-?\\d{1,12}) (-?\\d{1,12}) (\\d{1,12}) ([0-9a-f]{64}) ([0-9a-f]{128})`,
    opened: `${TIME} (\\d{1,10}) (\\d{1,7}) (\\d{1,7})`,
    sold: `${TIME} ${NAME} ${NAME} (\\d{1,4})`,
    returned: `${TIME} ${NAME} ${NAME} (\\d{1,4})`,
    refused: `${TIME} ${NAME} ${NAME} (\\d{1,4}) ([a-z_]{1,32})`,
    stock: `${TIME} (-?\\d{1,10})`,
    offers: `${TIME} (-?\\d{1,10})`,
    entered: `${TIME} ${NAME}`,
    withdrawn: `${TIME} ${NAME}`,
    ended: TIME,
  };
  const PATTERNS = new Map(Object.entries(LINES).map(([kind, words]) => [kind, new RegExp(`^${kind} ${words}$`)]));
  /** What a signature of a head is for, and the signature. */
  const FIELDS = ['signature', 'size', 'root', 'time', 'units', 'orders', 'refusals', 'key'];
  /** The entries that answer a buyer. */
  const ANSWERS = new Set(['sold', 'refused', 'entered', 'withdrawn']);

  /** The kind of a line and its words; `null` if it is none of a log. */
  function parse(text) {
    const kind = text.slice(0, Math.max(text.indexOf(' '), 0));
    const found = PATTERNS.get(kind)?.exec(text);
    if (!found) return null;
    const time = Number(found[kind === 'head' ? 3 : 1]);
    const isTimed = kind === 'key' || Number.isSafeInteger(time);
    return isTimed ? { kind, words: found, time } : null;
  }

  /** The bytes of hexadecimal digits in any case; `null` for other text, or another length. */
  function bytes(text, length) {
    if (typeof text !== 'string' || text.length !== 2 * length) return null;
    const result = new Uint8Array(length);
    for (let at = 0; at < length; at += 1) {
      const byte = DIGITS[text.charCodeAt(2 * at)] * 16 + DIGITS[text.charCodeAt(2 * at + 1)];
      if (!(byte >= 0)) return null;
      result[at] = byte;
    }
    return result;
  }

  const same = (left, right) => left !== null && right !== null && left.every((byte, at) => byte === right[at]);

  /** A Merkle tree that grows: the roots of its complete parts, with their numbers of leaves. */
  class Tree {
    size = 0;
    parts = [];

    push(leaf) {
      this.size += 1;
      let leaves = 1;
      let root = leaf;
      while (this.parts.length > 0 && this.parts[this.parts.length - 1].leaves === leaves) {
        root = sha256(NODE, this.parts.pop().root, root);
        leaves *= 2;
      }
      this.parts.push({ leaves, root });
    }

    root() {
      if (this.size === 0) return sha256();
      return this.parts.map((part) => part.root).reduceRight((right, left) => sha256(NODE, left, right));
    }
  }

  /**
   * Inclusion proofs (RFC 9162, section 2.1.3.2). Receipts of one batch share most of their way to the root, so each node that
   * leads there is remembered with the rest of its path, until a receipt of another head comes.
   */
  class Proofs {
    head = null;
    nodes = new Map();

    /** Whether `path` leads from a leaf to the root of a head. */
    leads(leaf, position, head, path) {
      if (this.head?.root !== head.root || this.head.size !== head.size) {
        this.head = { root: head.root, size: head.size };
        this.nodes.clear();
      }
      let [index, last, node] = [position, head.size - 1, leaf];
      if (!Number.isSafeInteger(index) || !Number.isSafeInteger(last) || index < 0 || index > last) return false;
      const met = [];
      for (let at = 0; at < path.length; at += 1) {
        if (last === 0) return false;
        const known = this.nodes.get(at * 2 ** 47 + index);
        if (known !== undefined && known.last === last && same(known.node, node) && isRest(known.path, path, at)) return this.remember(met);
        met.push({ name: at * 2 ** 47 + index, node, last, path });
        const next = bytes(path[at], 32);
        if (next === null) return false;
        if (index % 2 === 1 || index === last) {
          node = sha256(NODE, next, node);
          while (index % 2 === 0 && index !== 0) [index, last] = [index / 2, Math.floor(last / 2)];
        } else {
          node = sha256(NODE, node, next);
        }
        [index, last] = [Math.floor(index / 2), Math.floor(last / 2)];
      }
      return last === 0 && same(node, bytes(head.root, 32)) && this.remember(met);
    }

    remember(met) {
      for (const { name, ...known } of met) this.nodes.set(name, known);
      return true;
    }
  }

  /** Whether two paths are the same from a place on. */
  function isRest(known, path, from) {
    if (known.length !== path.length) return false;
    for (let at = from; at < path.length; at += 1) if (known[at] !== path[at]) return false;
    return true;
  }

  /** Whether "sold out" was told although enough units were left at each moment around it. */
  function isToldEarly(changes, refusals) {
    changes.sort((one, other) => one.time - other.time || one.units - other.units);
    refusals.sort((one, other) => one.time - other.time || one.units - other.units);
    const left = [0];
    for (const change of changes) left.push(left[left.length - 1] + change.units);
    // Indexes of `left` in the window around a refusal, such that each has less than all behind it.
    let [from, to, first] = [0, 0, 0];
    const least = [];
    for (const { time, units } of refusals) {
      while (to < left.length && (to === 0 || changes[to - 1].time <= time + TOLERANCE)) {
        while (least.length > first && left[least[least.length - 1]] >= left[to]) least.pop();
        least.push(to);
        to += 1;
      }
      while (from + 1 < to && changes[from].time <= time - TOLERANCE) from += 1;
      while (first < least.length && least[first] < from) first += 1;
      if (first < least.length && left[least[first]] >= units) return true;
    }
    return false;
  }

  /** What the entries of a log add up to, and the rules of the sale. */
  class Books {
    total = 0;
    units = 0;
    orders = 0;
    refusals = 0;
    delaySeconds = 0;
    limit = 0;
    isOpen = false;
    byOrder = new Map();
    byBuyer = new Map();
    changes = [];
    toldSoldOut = [];

    take({ kind, words, time }, fault) {
      if ((kind === 'opened') === this.isOpen) fault('orders');
      this.isOpen = true;
      if (kind === 'opened') {
        this.limit = Number(words[3]);
        this.delaySeconds = Number(words[4]);
      }
      if (kind === 'opened' || kind === 'stock') {
        this.total += Number(words[2]);
        this.changes.push({ time, units: Number(words[2]) });
      } else if (kind === 'offers') {
        this.changes.push({ time, units: -Number(words[2]) });
      } else if (kind === 'refused') {
        this.refusals += 1;
        if (words[5] === 'sold_out') this.toldSoldOut.push({ time, units: Number(words[4]) });
      } else if (kind === 'sold' || kind === 'returned') {
        const [, , order, buyer] = words;
        const units = Number(words[4]);
        const isSold = kind === 'sold';
        let known = this.byOrder.get(order);
        if (known === undefined && isSold) {
          known = { buyer, units, isLive: false };
          this.byOrder.set(order, known);
        }
        const fits = known !== undefined && known.buyer === buyer && known.units === units && known.isLive !== isSold;
        if (!fits) fault('orders');
        if (known !== undefined && (isSold || fits)) known.isLive = isSold;
        const has = (this.byBuyer.get(buyer) ?? 0) + (isSold ? units : -units);
        this.byBuyer.set(buyer, has);
        if (isSold && has > this.limit) fault('limit');
        this.units += isSold ? units : -units;
        this.orders += isSold ? 1 : -1;
        this.changes.push({ time, units: isSold ? -units : units });
      }
    }
  }

  /** Remembers which signatures were checked: many receipts have the same head. */
  class Signatures {
    checked = new Map();
    last = null;

    async isSigned(item, head) {
      const { size, root, time, units, orders, refusals, key, signature } = head;
      const before = this.last;
      const isLast = before !== null && item === before.item && FIELDS.every((field) => head[field] === before.head[field]);
      if (isLast) return before.isSigned;
      const message =
        `sale-head 1\nitem ${item}\nsize ${size}\nroot ${root}\ntime ${time}\n` +
        `units ${units}\norders ${orders}\nrefusals ${refusals}\n`;
      const name = `${key} ${signature} ${message}`;
      if (!this.checked.has(name)) this.checked.set(name, await Signatures.verify(key, signature, bytesOf(message)));
      this.last = { item, head, isSigned: this.checked.get(name) };
      return this.last.isSigned;
    }

    static async verify(key, signature, message) {
      const [keyBytes, signed] = [bytes(key, 32), bytes(signature, 64)];
      if (keyBytes === null || signed === null) return false;
      try {
        const publicKey = await crypto.subtle.importKey('raw', keyBytes, 'Ed25519', false, ['verify']);
        return await crypto.subtle.verify('Ed25519', publicKey, signed, message);
      } catch (error) {
        // Not a point of the curve. A browser without Ed25519 is told before.
        if (error instanceof DOMException && error.name === 'DataError') return false;
        throw error;
      }
    }
  }

  async function checkHead(item, head, keys, signatures, fault) {
    if (keys !== null && !keys.includes(head.key)) fault('key');
    if (!(await signatures.isSigned(item, head))) fault('signature');
  }

  /** The name of an order in the log; `null` if a value is damaged. */
  function nameOf(order, nonce) {
    const [salt, id] = [bytes(nonce, 16), bytes(String(order).replaceAll('-', ''), 16)];
    return salt && id && hexOf(sha256(bytesOf('seckill order 1\n'), salt, id).subarray(0, 16));
  }

  async function checkOne(receipt, keys, { signatures, proofs }, fault) {
    const line = parse(receipt.entry);
    const leads = proofs.leads(leafOf(receipt.entry), receipt.position, receipt.head, receipt.path);
    if (line === null || !ANSWERS.has(line.kind) || !leads) fault('receipt');
    const { order = null, nonce = null } = receipt;
    if (order !== null && receipt.entry.split(' ')[2] !== nameOf(order, nonce)) fault('receipt');
    await checkHead(receipt.item, receipt.head, keys, signatures, fault);
  }

  /** The set of faults, and a function that adds one. */
  function faultSet() {
    const faults = new Set();
    return [faults, (kind) => faults.add(kind)];
  }

  /** Checks a receipt by itself. @returns {Promise<string[]>} its faults */
  async function checkReceipt(receipt, keys = null) {
    const [faults, fault] = faultSet();
    await checkOne(receipt, keys, { signatures: new Signatures(), proofs: new Proofs() }, fault);
    return [...faults];
  }

  /** A line of a text at a time: a list of a million lines would be twice the text. */
  function* linesOf(text) {
    for (let at = 0; at < text.length; ) {
      const end = text.indexOf('\n', at);
      const line = end < 0 ? text.slice(at) : text.slice(at, end);
      at = end < 0 ? text.length : end + 1;
      yield line;
    }
  }

  /**
   * Checks a log.
   * @param {string} text
   * @param {{keys?: string[] | null, earlier?: any[], receipts?: any[], orders?: any[]}} known the keys that the shop had
   *   published, heads that were saved earlier, and receipts and orders (with their nonces) that must be in the log
   * @returns {Promise<{faults: string[], entries: number, units: number, orders: number, refusals: number}>}
   */
  async function check(text, { keys = null, earlier = [], receipts = [], orders = [] } = {}) {
    const [faults, fault] = faultSet();
    const [tree, books, signatures] = [new Tree(), new Books(), new Signatures()];
    const result = () => {
      const { units, orders, refusals } = books;
      return { faults: [...faults], entries: tree.size, units, orders, refusals };
    };
    const lines = linesOf(text);
    const begins = lines.next().value === 'sale-log 1';
    const item = Number(/^item (\d{1,15})$/.exec(lines.next().value ?? '')?.[1]);
    if (!begins || Number.isNaN(item)) {
      fault('unreadable');
      return result();
    }
    const saved = [...earlier].sort((one, other) => one.size - other.size);
    const wanted = [...receipts].sort((one, other) => one.position - other.position);
    let [nextSaved, nextWanted, heads, times] = [0, 0, 0, null];
    let last = { size: 0, time: 0 };
    const known = new Set();
    const meetSaved = () => {
      for (; nextSaved < saved.length && saved[nextSaved].size <= tree.size; nextSaved += 1) {
        const { size, root } = saved[nextSaved];
        if (size !== tree.size || !same(tree.root(), bytes(root, 32))) fault('cut');
      }
    };
    for (const line of lines) {
      const parsed = parse(line);
      if (parsed === null) {
        fault('unreadable');
        return result();
      }
      const { kind, words, time } = parsed;
      if (kind === 'key') {
        known.add(words[1]);
      } else if (kind === 'head') {
        heads += 1;
        const [size, units, orders, refusals] = [1, 4, 5, 6].map((at) => Number(words[at]));
        const head = { size, root: words[2], time, units, orders, refusals, key: words[7], signature: words[8] };
        if (size !== tree.size || !same(tree.root(), bytes(head.root, 32))) fault('root');
        if (!known.has(head.key)) fault('signature');
        await checkHead(item, head, keys, signatures, fault);
        if (units !== books.units || orders !== books.orders || refusals !== books.refusals) fault('sums');
        if (books.units > books.total) fault('oversold');
        const delay = books.delaySeconds * 1e6 + TOLERANCE;
        if (times !== null && (time - times.first > delay || times.last - time > TOLERANCE)) fault('late');
        if (time < last.time) fault('late');
        last = { size: tree.size, time };
        times = null;
      } else {
        for (; nextWanted < wanted.length && wanted[nextWanted].position <= tree.size; nextWanted += 1) {
          const receipt = wanted[nextWanted];
          if (receipt.position !== tree.size || receipt.entry !== line) fault('missing');
        }
        if (ANSWERS.has(kind)) {
          times ??= { first: time, last: time };
          times.first = Math.min(times.first, time);
          times.last = Math.max(times.last, time);
        }
        books.take(parsed, fault);
        tree.push(leafOf(line));
        meetSaved();
      }
    }
    meetSaved();
    if (nextSaved < saved.length) fault('cut');
    if (nextWanted < wanted.length) fault('missing');
    for (const { order, nonce } of orders) if (!books.byOrder.has(nameOf(order, nonce))) fault('missing');
    if (heads === 0 || last.size !== tree.size) fault('root');
    if (isToldEarly(books.changes, books.toldSoldOut)) fault('sold_out');
    for (const head of earlier) await checkHead(item, head, keys, signatures, fault);
    const proofs = new Proofs();
    for (const receipt of receipts) {
      if (receipt.item !== item) fault('missing');
      await checkOne(receipt, keys, { signatures, proofs }, fault);
    }
    return result();
  }

  /** Whether this browser can check signatures. */
  async function canVerify() {
    try {
      await crypto.subtle.importKey('raw', new Uint8Array(32), 'Ed25519', false, ['verify']);
      return true;
    } catch (error) {
      return error instanceof DOMException && error.name === 'DataError';
    }
  }

  return { check, checkReceipt, canVerify };
})();
