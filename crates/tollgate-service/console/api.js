// Requests to the admin API. The token is kept in this tab, and sent in a header: a page of another
// origin can neither read it nor make the browser send it.

const KEPT = "tollgate-admin-token";

/** The refusal of a request, in the words of the service. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }

  /** Whether the token is missing or wrong. */
  get isToken() {
    return this.status === 401;
  }
}

export const token = {
  isNeeded: document.documentElement.dataset.token === "needed",
  get: () => sessionStorage.getItem(KEPT),
  keep: text => sessionStorage.setItem(KEPT, text),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Asks by GET, or by POST where there is a body: the answer, or a `Refused`. */
export async function ask(path, body) {
  const headers = { accept: "application/json" };
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const reply = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
    signal: AbortSignal.timeout(10_000),
  });
  const answer = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    throw new Refused(reply.status, answer.detail ?? `the service answered ${reply.status}`);
  }
  return answer;
}
