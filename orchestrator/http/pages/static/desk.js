// Follows the history, and fetches again what is shown, so that no reader has to reload. Without it every page works too.
//
// A part of a page that changes has the attribute data-live and an id. The page is fetched as it is, and its parts
// replace the shown ones; forms are outside of them, so text that is being typed is not lost.

const SOON = 300;
const AT_LEAST = 1500;
const AGES = 10000;
const AGAIN = 60000;
const REACHABLE = "a, summary, button, input, [tabindex]";
const TYPED = 250;

const line = document.getElementById("live");
const age = document.getElementById("age");
const sources = new WeakMap();
let stream = null;
let timer = null;
let fetchedAt = 0;
let fetching = false;
let shownAt = new Date();

function say(words, wrong) {
  if (line.textContent !== words) {
    line.textContent = words;
  }
  line.className = wrong ? "note bad" : "hint";
}

function plan(wait) {
  const due = Math.max(wait, fetchedAt + AT_LEAST - Date.now());
  clearTimeout(timer);
  timer = setTimeout(refresh, due);
}

async function refresh() {
  if (fetching || document.hidden) {
    return;
  }
  fetching = true;
  fetchedAt = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.redirected) {
      location.assign(answer.url);
      return;
    }
    if (!answer.ok) {
      throw new Error(answer.status === 503 ? "the store does not answer it" : `it answers ${answer.status}`);
    }
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    shownAt = new Date();
    say(stream && stream.readyState === EventSource.OPEN ? "Live" : "Refreshed every 10 seconds", false);
  } catch (error) {
    const why = error instanceof TypeError ? "it does not answer" : error.message;
    const at = shownAt.toISOString().slice(11, 19);
    say(`No news from this controller: ${why}. You see the state of ${at} UTC. Open the desk of another controller.`, true);
  } finally {
    fetching = false;
    plan(AGES);
  }
}

function show(page) {
  document.title = page.title;
  const icon = page.querySelector("link[rel=icon]").getAttribute("href");
  const shownIcon = document.querySelector("link[rel=icon]");
  if (shownIcon.getAttribute("href") !== icon) {
    shownIcon.setAttribute("href", icon);
  }
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh === null || fresh.innerHTML === sources.get(part)) {
      continue;
    }
    sources.set(part, fresh.innerHTML);
    const opened = [...part.querySelectorAll("details")].map((each) => each.open);
    const reached = [...part.querySelectorAll(REACHABLE)].indexOf(document.activeElement);
    const typed = [...part.querySelectorAll("input[id]")].map((each) => [each.id, each.value]);
    part.replaceChildren(...fresh.childNodes);
    part.querySelectorAll("details").forEach((each, index) => {
      each.open = opened[index] ?? each.open;
    });
    for (const [id, value] of typed) {
      const field = part.querySelector(`#${CSS.escape(id)}`);
      if (field) {
        field.value = value;
      }
    }
    dress(part);
    if (reached >= 0) {
      [...part.querySelectorAll(REACHABLE)][reached]?.focus({ preventScroll: true });
    }
  }
}

// What only a script can add: the reader's own time beside UTC, and a button that copies a command.
function dress(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (at.getTimezoneOffset() === 0) {
      continue;
    }
    const local = at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
    time.title = `${time.dateTime}, here ${local}`;
    if (time.textContent.endsWith("UTC")) {
      const beside = document.createElement("span");
      beside.className = "local";
      beside.textContent = ` (${local} here)`;
      time.append(beside);
    }
  }
  for (const command of navigator.clipboard ? part.querySelectorAll(".command") : []) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(command.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    command.append(button);
  }
}

function showAge() {
  const seconds = Math.round((Date.now() - shownAt) / 1000);
  age.textContent = line.className === "hint" && line.textContent ? `${seconds} s ago` : "";
}

function follow() {
  if (document.hidden || (stream && stream.readyState !== EventSource.CLOSED)) {
    return;
  }
  stream = new EventSource("/events");
  stream.addEventListener("open", () => plan(SOON));
  stream.addEventListener("history", () => plan(SOON));
  stream.addEventListener("missed", () => plan(SOON));
  stream.addEventListener("error", () => plan(SOON));
}

function leave() {
  stream?.close();
  clearTimeout(timer);
}

function narrow(form) {
  const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `${form.getAttribute("action")}${chosen.size ? `?${chosen}` : ""}`);
  clearTimeout(timer);
  fetchedAt = 0;
  timer = setTimeout(refresh, TYPED);
}

const search = document.querySelector("form.find");
search?.addEventListener("input", () => narrow(search));
search?.addEventListener("submit", (event) => {
  event.preventDefault();
  narrow(search);
});

document.querySelectorAll("[data-live]").forEach((part) => sources.set(part, part.innerHTML));
dress(document);
if (line && document.querySelector("[data-live]")) {
  setInterval(showAge, 1000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      leave(); // only so many may follow one controller
    } else {
      follow();
      plan(0);
    }
  });
  addEventListener("pagehide", leave);
  setInterval(follow, AGAIN); // a page that was one too many, or was disconnected, tries again
  follow();
  plan(AGES);
}
