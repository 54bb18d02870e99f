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
function shorten(text) {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

addEventListener("error", event => failed(event.error ?? event.message));
addEventListener("unhandledrejection", event => failed(event.reason));
