// Everything that goes wrong is shown in the page: a reader on a phone has no console.

const get = id => document.getElementById(id);

// One line for each thing that is wrong, above everything else. It is text, never markup.
function showTrouble(lines) {
  get("trouble").replaceChildren(...lines.map(line => {
    const paragraph = document.createElement("p");
    paragraph.textContent = line;
    return paragraph;
  }));
}

function failed(error) {
  const what = error?.message ?? String(error);
  showTrouble([`The page has failed: ${shorten(what)}. Reload it. If that does not help, the `
    + "limits and requests that led here are worth a report."]);
}

// What somebody else wrote, for a message: not longer than it needs to be recognized.
function shorten(text, most = 60) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

addEventListener("error", event => failed(event.error ?? event.message));
addEventListener("unhandledrejection", event => failed(event.reason));
