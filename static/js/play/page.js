/**
 * The scheduler's page: the reader chooses who makes the next step. The address holds the schedule, so a link
 * shows everybody the same run.
 */
'use strict';
(() => {
  const { compile, machine, search } = globalThis.PlayMachine;
  const programs = new Map(globalThis.PLAY_PROGRAMS.map((source) => [source.name, source]));
  /** States that a search looks at before it gives up. */
  const STATES_MAX = 300_000;
  /** The pause between two steps of a schedule that is played, in milliseconds. */
  const PAUSE_MS = 550;
  const FAULT_WORDS = {
    lease: 'faultLease',
    failover: 'faultFailover',
    session: 'faultSession',
    'counter lost': 'faultLost',
    restart: 'faultRestart',
    crash: 'faultCrash',
    tick: 'eventTick',
    repair: 'eventRepair',
  };
  /** Variables that hold the number of a buyer. */
  const OWNED = new Set(['row_lock', 'lock', 'lock@', 'mutex@', 'my_mutex', 'a', 'b', 'c']);

  const byId = (id) => document.getElementById(id);
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === 'text') element.textContent = value;
      else if (name === 'onclick') element.addEventListener('click', value);
      else element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children);
    return element;
  };

  const stored = () => {
    try {
      return JSON.parse(localStorage.getItem('seckill.language'));
    } catch {
      return null;
    }
  };
  let language = [stored(), ...navigator.languages.map((tag) => tag.slice(0, 2))].find((code) =>
    Object.hasOwn(globalThis.PLAY_WORDS, code),
  ) ?? 'en';
  const say = (key, parameters = {}) =>
    globalThis.PLAY_WORDS[language][key].replace(/\{(\w+)\}/g, (_, name) => String(parameters[name]));

  /** What is chosen, and the steps so far. */
  let chosen = { strategy: 'mysql-naive', buyers: 2, units: 1, instances: 1, arbiter: false, faults: [] };
  let steps = [];
  let one = null;
  let note = '';
  let playing = 0;

  /** The states of the run so far, from the start. */
  function run() {
    const states = [one.start()];
    for (const step of steps) states.push(one.after(states.at(-1), step));
    return states;
  }

  function readAddress(text) {
    const asked = new URLSearchParams(text);
    const among = (name, values, otherwise) => (values.includes(Number(asked.get(name))) ? Number(asked.get(name)) : otherwise);
    const strategy = programs.has(asked.get('strategy')) ? asked.get('strategy') : 'mysql-naive';
    chosen = {
      strategy,
      buyers: among('buyers', [2, 3], 2),
      units: among('units', [1, 2], 1),
      instances: among('instances', [1, 2], programs.get(strategy).instances),
      arbiter: asked.get('arbiter') === 'on',
      faults: (asked.get('faults') ?? '').split(',').filter((fault) => Object.hasOwn(FAULT_WORDS, fault)),
    };
    prepare();
    steps = [];
    for (const step of (asked.get('steps') ?? '').split('.').filter(Boolean)) {
      if (!one.actions(run().at(-1), allFaults()).includes(step)) break;
      steps.push(step);
    }
  }

  function writeAddress() {
    const { strategy, buyers, units, instances, arbiter, faults } = chosen;
    const asked = new URLSearchParams({ strategy, buyers, units, instances, arbiter: arbiter ? 'on' : 'off' });
    if (faults.length > 0) asked.set('faults', faults.join(','));
    if (steps.length > 0) asked.set('steps', steps.join('.'));
    history.replaceState(null, '', `#${asked}`);
  }

  function prepare() {
    const program = compile(programs.get(chosen.strategy));
    one = machine(program, chosen);
    chosen.faults = chosen.faults.filter((fault) => allFaults().includes(fault));
  }

  /** The faults that the strategy's program knows. */
  function allFaults() {
    const faults = one.program.events.filter((event) => event.isFault).map((event) => event.name);
    return one.program.crash ? [...faults, 'crash'] : faults;
  }

  function act(action) {
    if (!one.actions(run().at(-1), allFaults()).includes(action)) return;
    note = '';
    steps.push(action);
    draw();
  }

  function restart() {
    playing += 1;
    steps = [];
    note = '';
    prepare();
    draw();
  }

  function undo() {
    playing += 1;
    steps.pop();
    note = '';
    draw();
  }

  /** Searches all schedules, and plays the shortest that oversells. */
  async function find() {
    const found = search(one, chosen.faults, STATES_MAX);
    const numbers = new Intl.NumberFormat(globalThis.PLAY_WORDS[language].tag);
    const states = numbers.format(found.states);
    steps = [];
    if (!found.oversells) {
      playing += 1;
      const key = !found.isWhole ? 'gaveUp' : found.schedules === null ? 'searchedStates' : 'searched';
      note = say(key, { states, schedules: numbers.format(found.schedules ?? 0) });
      if (allFaults().length > 0 && chosen.faults.length === 0) note += ` ${say('withoutFault')}`;
      draw();
      return byId('verdict').scrollIntoView({ block: 'nearest' });
    }
    note = say('found', { steps: found.oversells.length });
    byId('verdict').scrollIntoView({ block: 'start' });
    await play(found.oversells);
  }

  async function play(schedule) {
    playing += 1;
    const mine = playing;
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
    for (const step of schedule) {
      steps.push(step);
      if (isCalm) continue;
      draw();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      if (playing !== mine) return;
    }
    draw();
  }

  function draw() {
    const states = run();
    const [state, before] = [states.at(-1), states.at(-2) ?? states.at(-1)];
    drawColumns(state, states);
    drawEvents(state);
    drawWorld(state, before);
    drawVerdict(state);
    byId('undo').disabled = steps.length === 0;
    writeAddress();
  }

  function drawColumns(state, states) {
    const { program } = one;
    const columns = state.phases.map((phase, buyer) => {
      const visited = new Set(states.map((earlier) => earlier.phases[buyer]).filter((at) => typeof at === 'number'));
      const list = program.steps.map((step, index) =>
        make('li', { text: step.text, 'data-at': phase === index, 'aria-current': phase === index && 'step', 'data-done': visited.has(index) && phase !== index }),
      );
      const isRunning = typeof phase === 'number';
      const canStep = one.canStep(state, buyer);
      const result = phase === 'c' ? 'crashed' : state.hasOrder[buyer] ? 'sold' : 'refused';
      const label = isRunning ? (canStep ? say('step') : say('waits')) : say(result);
      const place = isRunning ? say('stepOf', { step: phase + 1, steps: list.length }) : '';
      const name = say('buyer', { buyer: buyer + 1 });
      const where = chosen.instances > 1 ? ` · ${say('atInstance', { instance: (buyer % chosen.instances) + 1 })}` : '';
      const button = make('button', { id: `step-${buyer}`, class: 'button', type: 'button', text: label, 'aria-label': [`${name}: ${label}`, place].filter(Boolean).join(', '), onclick: () => (playing += 1, act(String(buyer))) });
      button.disabled = !canStep;
      const head = make('div', { class: 'column-head' }, make('strong', { text: name + where }), make('span', { class: 'hint', text: place }), button);
      return make('li', { class: 'column' }, head, make('ol', { class: 'program' }, ...list));
    });
    const focused = document.activeElement?.id;
    byId('columns').replaceChildren(...columns);
    if (focused?.startsWith('step-')) byId(focused)?.focus({ preventScroll: true });
  }

  function drawEvents(state) {
    const possible = one.actions(state, allFaults()).filter((action) => !/^\d/.test(action));
    const buttons = possible.map((action) => {
      const index = Number(action.slice(1));
      const label = action.startsWith('c') ? say('crash', { buyer: index + 1 }) : say(FAULT_WORDS[one.program.events[index].name]);
      return make('button', { class: 'button quiet', type: 'button', text: label, onclick: () => (playing += 1, act(action)) });
    });
    byId('events').replaceChildren(...buttons);
  }

  function drawWorld(state, before) {
    const owners = state.hasOrder.flatMap((has, buyer) => (has ? [buyer + 1] : []));
    const isTwice = owners.length > chosen.units;
    const sold = owners.map((buyer) => make('li', { 'data-state': isTwice ? 'twice' : 'sold', text: say('soldTo', { buyer }) }));
    const free = Array.from({ length: Math.max(0, chosen.units - owners.length) }, () => make('li', { 'data-state': 'free', text: say('left') }));
    byId('tiles').replaceChildren(...sold, ...free);
    const { names } = globalThis.PLAY_WORDS[language];
    const rows = [];
    for (const name of one.program.names) {
      const stem = name.replace('@', '');
      const isHidden = /fence/.test(name) && !one.program.names.includes('fences');
      if (isHidden || !Object.hasOwn(names, stem)) continue;
      const isMine = name.startsWith('my_');
      const width = isMine ? chosen.buyers : name.endsWith('@') ? chosen.instances : 1;
      for (let index = 0; index < width; index += 1) {
        const value = one.get(state, name, index);
        const owner = isMine ? ` (${say('buyer', { buyer: index + 1 })})` : width > 1 ? ` (${say('atInstance', { instance: index + 1 })})` : '';
        const shown = !OWNED.has(name) ? String(value) : value === 0 ? say('free') : say('buyer', { buyer: value });
        const changed = value !== one.get(before, name, index);
        rows.push(make('dt', { text: names[stem] + owner }), make('dd', { text: shown, class: 'digits', 'data-changed': changed }));
      }
    }
    byId('values').replaceChildren(...rows);
  }

  function drawVerdict(state) {
    const figures = { orders: one.orders(state), units: chosen.units, steps: steps.length, refused: state.refused };
    const isStuck = !one.isOver(state) && one.actions(state, []).length === 0;
    const wanted = Math.min(chosen.units, chosen.buyers);
    let key = 'verdictRunning';
    if (one.isOversold(state)) key = 'verdictOversold';
    else if (steps.length === 0) key = 'verdictStart';
    else if (one.isOver(state)) key = figures.orders < wanted ? 'verdictUndersold' : 'verdictEnded';
    else if (isStuck) key = 'verdictStuck';
    const sentences = [note, steps.length === 0 && note ? '' : say(key, figures)];
    if (state.refused > 0) sentences.push(say('verdictRefused', figures));
    const verdict = byId('verdict');
    verdict.textContent = sentences.filter(Boolean).join(' ');
    const isBad = ['verdictOversold', 'verdictStuck', 'verdictUndersold'].includes(key);
    verdict.dataset.tone = isBad ? 'bad' : one.isOver(state) ? 'good' : '';
  }

  /** Everything that depends on the strategy or on the language. */
  function drawFrame() {
    const words = globalThis.PLAY_WORDS[language];
    document.documentElement.lang = words.tag;
    document.title = words.title;
    for (const element of document.querySelectorAll('[data-word]')) element.textContent = words[element.dataset.word];
    const other = language === 'en' ? 'zh' : 'en';
    const button = byId('language');
    button.textContent = globalThis.PLAY_WORDS[other].name;
    button.lang = globalThis.PLAY_WORDS[other].tag;
    button.title = new Intl.DisplayNames([words.tag], { type: 'language' }).of(other);
    const group = (key, isSafe) => {
      const options = [...programs.values()].filter((source) => source.safe === isSafe);
      return make('optgroup', { label: words[key] }, ...options.map((source) => make('option', { value: source.name, text: source.name })));
    };
    byId('strategy').replaceChildren(group('unsafe', false), group('safe', true));
    const chapters = words.chapterList.map(({ title, claim, show, leavesOut }) =>
      make(
        'li',
        { class: 'chapter' },
        make('h3', { text: title }),
        make('p', { text: claim }),
        make('button', { class: 'button', type: 'button', text: say('show'), 'aria-label': `${say('show')}: ${title}`, onclick: () => showChapter(show) }),
        make('p', { class: 'hint', text: say('leavesOut', { text: leavesOut }) }),
      ),
    );
    byId('chapters').replaceChildren(...chapters);
    drawChoices();
  }

  function drawChoices() {
    for (const name of ['strategy', 'buyers', 'units', 'instances']) byId(name).value = chosen[name];
    byId('arbiter').checked = chosen.arbiter;
    const source = programs.get(chosen.strategy);
    byId('summary').textContent = `${source.summary} (${source.source})`;
    const labels = allFaults().map((fault) => {
      const tick = make('input', { type: 'checkbox', value: fault });
      tick.checked = chosen.faults.includes(fault);
      tick.addEventListener('change', () => {
        const others = chosen.faults.filter((one) => one !== fault);
        chosen.faults = tick.checked ? [...others, fault] : others;
        note = '';
        draw();
      });
      return make('label', {}, tick, ` ${say(FAULT_WORDS[fault])}`);
    });
    byId('faults').replaceChildren(...labels);
    byId('faults').parentElement.hidden = labels.length === 0;
  }

  async function showChapter(address) {
    readAddress(address);
    note = '';
    drawChoices();
    byId('verdict').scrollIntoView({ block: 'start' });
    const schedule = steps;
    steps = [];
    if (schedule.length > 0) await play(schedule);
    else await find();
  }

  for (const name of ['strategy', 'buyers', 'units', 'instances']) {
    byId(name).addEventListener('change', (event) => {
      chosen[name] = name === 'strategy' ? event.target.value : Number(event.target.value);
      if (name === 'strategy') chosen.instances = programs.get(chosen.strategy).instances;
      restart();
      drawChoices();
    });
  }
  byId('arbiter').addEventListener('change', (event) => {
    chosen.arbiter = event.target.checked;
    restart();
  });
  byId('find').addEventListener('click', find);
  byId('undo').addEventListener('click', undo);
  byId('again').addEventListener('click', restart);
  /** Over plain http from another machine there is no `clipboard`, and a reader may forbid it. @returns {Promise<boolean>} */
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const field = Object.assign(document.createElement('textarea'), { value: text });
      document.body.append(field);
      field.select();
      const done = document.execCommand('copy');
      field.remove();
      return done;
    }
  }

  byId('copy').addEventListener('click', async () => {
    writeAddress();
    note = (await copied(location.href)) ? say('copied') : say('inAddress');
    draw();
  });
  byId('language').addEventListener('click', () => {
    language = language === 'en' ? 'zh' : 'en';
    try {
      localStorage.setItem('seckill.language', JSON.stringify(language));
    } catch {
      // The browser forbids storage: the choice lasts as long as the page.
    }
    drawFrame();
    draw();
  });
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('select, input')) return;
    if (/^[123]$/.test(event.key)) act(String(Number(event.key) - 1));
    else if (event.key === 'u') undo();
    else if (event.key === 'f') find();
  });
  addEventListener('hashchange', () => {
    readAddress(location.hash.slice(1));
    drawChoices();
    draw();
  });

  readAddress(location.hash.slice(1));
  drawFrame();
  draw();
  document.documentElement.dataset.ready = '';
})();
