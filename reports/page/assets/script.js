'use strict';
// What the page does besides being read: the choice of colours, sorting and filtering tables, two points side by side.
(() => {
  const theme = document.getElementById('theme');
  const choices = ['auto', 'light', 'dark'];
  let choice = Math.max(0, choices.indexOf(document.documentElement.dataset.theme));
  const show = () => {
    if (choice) document.documentElement.dataset.theme = choices[choice];
    else delete document.documentElement.dataset.theme;
    theme.textContent = 'Colours: ' + choices[choice];
  };
  theme.hidden = false;
  theme.addEventListener('click', () => { choice = (choice + 1) % choices.length; show(); });
  show();

  // The number that a cell starts with; NaN for OOM, n/a and the like.
  const number = (text) => parseFloat(text.replace(/,(?=\d{3})/g, '').replace(/^[^\d.+-]+(?=[\d.])/, ''));
  const order = new Intl.Collator(undefined, {numeric: true});

  const sort = (table, column, numeric, down) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => {
      const cell = row.cells[column];
      const text = cell ? cell.textContent.trim() : '';
      return {row, place, text, value: numeric ? number(text) : NaN};
    });
    const sign = down ? -1 : 1;
    rows.sort((a, b) => {
      if (!numeric) return sign * order.compare(a.text, b.text) || a.place - b.place;
      const unknown = Number.isNaN(a.value) - Number.isNaN(b.value);  // these stay below, either way
      return unknown || sign * (a.value - b.value) || a.place - b.place;
    });
    body.append(...rows.map((r) => r.row));
  };

  for (const table of document.querySelectorAll('table.sorts')) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const down = head.getAttribute('aria-sort') === 'ascending';
        heads.forEach((other) => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
        sort(table, column, head.classList.contains('r'), down);
      });
    });
  }

  const made = (name, properties) => Object.assign(document.createElement(name), properties);

  // A row stays if it has every word; a table of a few rows needs no filter.
  const leastRows = 8;
  for (const table of document.querySelectorAll('table.sorts')) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < leastRows) continue;
    const frame = table.closest('.wide');
    const input = made('input', {type: 'search', autocomplete: 'off', placeholder: 'tp 4 full'});
    const count = made('output', {textContent: rows.length + ' rows'});
    const label = made('label', {className: 'filter', textContent: 'Rows with these words: '});
    label.append(input);
    const line = made('p', {className: 'tools'});
    line.append(label, ' ', count);
    frame.before(line);
    const texts = rows.map((row) => row.textContent.toLowerCase());
    input.addEventListener('input', () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => texts[i].includes(word));
        shown += !row.hidden;
      });
      count.textContent = words.length ? shown + ' of ' + rows.length + ' rows' : rows.length + ' rows';
    });
  }

  // The change from the first figure to the second, where both are numbers.
  const change = (from, to) => {
    const a = number(from || ''), b = number(to || '');
    if (!Number.isFinite(a) || !Number.isFinite(b) || a === b || a === 0) return '';
    return (b > a ? '+' : '') + (100 * (b / a - 1)).toFixed(1) + ' %';
  };

  // Two points that are ticked stand side by side, above the table. Of three the oldest tick goes.
  for (const table of document.querySelectorAll('table[data-pairs]')) {
    const data = document.getElementById(table.dataset.pairs);
    if (!data) continue;
    const {names, points} = JSON.parse(data.textContent);
    const panel = made('div', {className: 'pair', hidden: true});
    panel.setAttribute('role', 'region');
    panel.setAttribute('aria-label', 'Two points side by side');
    panel.setAttribute('aria-live', 'polite');
    table.closest('.wide').before(
      made('p', {className: 'tools', textContent: 'Tick two points to see them side by side.'}), panel);
    const ticked = [];  // boxes, the oldest first
    const show = () => {
      panel.hidden = ticked.length < 2;
      if (panel.hidden) return;
      const [a, b] = ticked.map((box) => box.value);
      const grid = made('table', {});
      const head = grid.createTHead().insertRow();
      for (const text of ['', ticked[0].dataset.name, ticked[1].dataset.name, 'Change'])
        head.append(made('th', {scope: 'col', textContent: text, className: text ? 'r' : ''}));
      const body = grid.createTBody();
      names.forEach((name, i) => {
        const from = points[a][i], to = points[b][i];
        if (from === null && to === null) return;
        if (from === to && Number.isNaN(number(from))) return;  // the same words, such as a source
        const row = body.insertRow();
        if (from !== to) row.className = 'differs';
        row.append(made('th', {scope: 'row', textContent: name}));
        for (const text of [from ?? 'n/a', to ?? 'n/a', change(from, to)])
          row.append(made('td', {className: 'r', textContent: text}));
      });
      const frame = made('div', {className: 'wide', tabIndex: 0});
      frame.setAttribute('role', 'region');
      frame.setAttribute('aria-label', 'Figures of the two points');
      frame.append(grid);
      const close = made('button', {type: 'button', textContent: 'Close'});
      close.addEventListener('click', () => { for (const box of ticked.splice(0)) box.checked = false; show(); });
      panel.replaceChildren(frame, close);
    };
    for (const row of table.tBodies[0].rows) {
      const name = row.cells[0].textContent;
      const box = made('input', {type: 'checkbox', value: row.dataset.point});
      box.dataset.name = name;
      box.setAttribute('aria-label', 'Side by side: ' + name);
      box.addEventListener('change', () => {
        if (box.checked) {
          if (ticked.length === 2) ticked.shift().checked = false;
          ticked.push(box);
        } else {
          ticked.splice(ticked.indexOf(box), 1);
        }
        show();
      });
      row.cells[0].prepend(box, ' ');
    }
  }
})();
