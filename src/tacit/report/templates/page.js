// Sorts a table by the column whose head is pressed; cells carry their number in data-sort. The page works without it.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" || (column === 0 && !head.hasAttribute("aria-sort"));
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const value = row => {
        const cell = row.cells[column];
        return cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
      };
      const compare = (a, b) => {
        const x = value(a), y = value(b);
        if (x === null || y === null) return (x === null) - (y === null);
        const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return down ? order : -order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach(part => { part.open = true; }));
