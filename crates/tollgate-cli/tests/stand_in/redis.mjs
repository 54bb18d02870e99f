// Stands in for node-redis where it is not installed: as much of it as examples/redis/limit.mjs uses.

import { connect } from 'node:net';

/** Reads a reply from `text` at `at`: [reply, where it ends], or nothing while it is incomplete. */
function read(text, at) {
  const end = text.indexOf('\r\n', at);
  if (end < 0) return undefined;
  const rest = text.slice(at + 1, end);
  switch (text[at]) {
    case '-': return [new Error(rest), end + 2];
    case ':': return [Number(rest), end + 2];
    case '$': {
      const after = end + 2 + Number(rest);
      return text.length < after + 2 ? undefined : [text.slice(end + 2, after), after + 2];
    }
    case '*': {
      const list = [];
      let next = end + 2;
      for (let i = 0; i < Number(rest); i += 1) {
        const item = read(text, next);
        if (!item) return undefined;
        list.push(item[0]);
        next = item[1];
      }
      return [list, next];
    }
    default: return [rest, end + 2];
  }
}

class Client {
  #url; #socket; #text = ''; #waiting = [];
  constructor({ url, disableOfflineQueue }) {
    if (!disableOfflineQueue) throw new Error('the example wants no queue');
    this.#url = new URL(url);
  }
  on() {}
  connect() {
    return new Promise((resolve, reject) => {
      const { protocol, hostname, port, pathname } = this.#url;
      const tcp = { host: hostname, port: Number(port || 6379) };
      this.#socket = connect(protocol === 'unix:' ? { path: pathname } : tcp, resolve);
      this.#socket.setEncoding('latin1');
      this.#socket.on('error', reject);
      this.#socket.on('data', (data) => {
        this.#text += data;
        for (let reply; (reply = read(this.#text, 0));) {
          this.#text = this.#text.slice(reply[1]);
          this.#waiting.shift()(reply[0]);
        }
      });
    });
  }
  async #send(...words) {
    const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    const reply = await new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#socket.write(`*${words.length}\r\n${parts.join('')}`);
    });
    if (reply instanceof Error) throw reply;
    return reply;
  }
  evalSha(sha, { keys, arguments: args }) {
    return this.#send('EVALSHA', sha, String(keys.length), ...keys, ...args);
  }
  eval(text, { keys, arguments: args }) {
    return this.#send('EVAL', text, String(keys.length), ...keys, ...args);
  }
  destroy() { this.#socket.destroy(); }
}

export const createClient = (options) => new Client(options);
