// Reading the picture by pointer, finger and arrow keys; times in the reader's own zone. Pages work without it.
"use strict";

function readChart(chart) {
  const readout = chart.parentElement.querySelector("[data-readout]");
  const cross = chart.querySelector(".cross");
  const hits = [...chart.querySelectorAll(".hit")];
  if (!readout || !hits.length) return;
  const texts = hits.map((hit) => hit.textContent.trim().split("\n").map((line) => line.trim()));
  // The browser's own tooltip would stand in front of the readout.
  hits.forEach((hit) => hit.replaceChildren());
  let now = hits.length - 1;

  function show(index) {
    now = Math.min(Math.max(index, 0), hits.length - 1);
    const [name, ...facts] = texts[now];
    readout.querySelector("[data-name]").textContent = name;
    readout.querySelector("[data-open]").href = hits[now].parentElement.getAttribute("href");
    readout.querySelector("[data-facts]").replaceChildren(...groups(facts));
    cross.setAttribute("x1", hits[now].dataset.x);
    cross.setAttribute("x2", hits[now].dataset.x);
    cross.setAttribute("visibility", "visible");
  }

  chart.tabIndex = 0;
  chart.setAttribute("role", "group");
  chart.setAttribute("aria-label", "Picture over time: arrow keys read it window by window, Enter opens one");
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 10, PageDown: now + 10, Home: 0, End: hits.length - 1 };
    if (event.key in steps && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      show(steps[event.key]);
    } else if (event.key === "Enter" && event.target === chart) {
      location.href = readout.querySelector("[data-open]").href;
    }
  });
  chart.addEventListener("focus", () => show(now));

  // Dragging the mouse from one window to another chooses that range.
  let begun = -1;
  const open = (from, to) => {
    const asked = new URLSearchParams(location.search);
    asked.delete("range");
    asked.set("from", hits[Math.min(from, to)].dataset.from);
    asked.set("to", hits[Math.max(from, to)].dataset.to);
    location.search = asked;
  };
  chart.addEventListener("dragstart", (event) => event.preventDefault());
  addEventListener("pointerup", () => {
    if (begun >= 0 && begun !== now) open(begun, now);
    setTimeout(() => { begun = -1; }, 0);
  });

  hits.forEach((hit, index) => {
    hit.addEventListener("pointerenter", (event) => {
      if (event.pointerType !== "mouse") return;
      show(index);
      for (const [i, other] of hits.entries()) {
        other.classList.toggle("chosen", begun >= 0 && (i - begun) * (i - now) <= 0 && begun !== now);
      }
    });
    // A finger first reads; "open" in the readout then leads on.
    let touched = false;
    hit.addEventListener("pointerdown", (event) => {
      touched = event.pointerType !== "mouse";
      if (!touched && event.button === 0) begun = index;
    });
    hit.addEventListener("click", (event) => {
      if (begun >= 0 && begun !== index) event.preventDefault();
      if (touched) { event.preventDefault(); show(index); }
    });
  });
}

// Where versions ran side by side, each begins a list of its own.
function groups(lines) {
  const lists = [];
  for (const line of lines) {
    if (!lists.length || line.startsWith("version: ")) lists.push(document.createElement("dl"));
    lists[lists.length - 1].append(fact(line));
  }
  return lists;
}

function fact(line) {
  const cut = line.indexOf(": ");
  const group = document.createElement("div");
  const term = document.createElement("dt");
  const value = document.createElement("dd");
  term.textContent = line.slice(0, cut);
  value.textContent = line.slice(cut + 2);
  group.append(term, value);
  return group;
}

function localTimes() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const hint = document.querySelector("[data-zone]");
  if (!zone || !hint || zone === "UTC") return;
  hint.querySelector("span").textContent = zone;
  hint.hidden = false;
  const style = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
  document.querySelectorAll("time[datetime]").forEach((time) => {
    time.title = `${style.format(new Date(time.dateTime))} (${zone})`;
  });
}

document.querySelectorAll("[data-chart]").forEach(readChart);
localTimes();
