'use strict';
// What the page does besides being read: sorting, the choice of colours.
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
})();
