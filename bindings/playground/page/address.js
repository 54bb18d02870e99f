// The address: what stands after its `#`, so that a link shows what its sender sees. A browser does
// not send that part to any server.

const MAX_ADDRESS = 8_192;

// The numbers that a reader can set: the least and the greatest.
const RANGES = {
  requests: [1, 5_000],
  seed: [0, Number.MAX_SAFE_INTEGER],
  cost: [1, 2 ** 40],
};

const PATTERNS = ["random", "steady", "bursts", "two_clients", "exact", "none"];

// The values of an address, each by its name. The engine reads limits, and `readScript` times.
const PARTS = {
  limits: text => text,
  second: text => text,
  traffic: text => {
    if (PATTERNS.includes(text)) return text;
    throw new Error(`write one of ${PATTERNS.join(", ")}`);
  },
  requests: text => wholeNumber("requests", text),
  seed: text => wholeNumber("seed", text),
  times: text => text,
};

// A number in its range, else an error that names the range.
function wholeNumber(name, text) {
  const [least, most] = RANGES[name];
  const number = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  if (number >= least && number <= most) return number;
  throw new Error(`write a whole number from ${least} to ${most}`);
}

// The values that an address has, and a line for each part of it that is wrong.
function readAddress(hash) {
  const text = hash.replace(/^#/, "");
  const [values, problems] = [{}, []];
  if (text.length > MAX_ADDRESS) {
    problems.push(`The address has ${text.length} characters after its #, and at most `
      + `${MAX_ADDRESS} are read. It was not read.`);
    return { values, problems };
  }
  for (const [name, value] of text ? new URLSearchParams(text) : []) {
    const wrong = what => problems.push(
      `The address has "${shorten(`${name}=${value}`)}": ${what}. This part was not read.`);
    if (!Object.hasOwn(PARTS, name)) {
      wrong(`there is no "${shorten(name)}", only ${Object.keys(PARTS).join(", ")}`);
    } else if (Object.hasOwn(values, name)) {
      wrong(`it has "${name}" already: write it once`);
    } else {
      try {
        values[name] = PARTS[name](value);
      } catch (error) {
        wrong(error.message);
      }
    }
  }
  return { values, problems };
}

// `#limits=5/10s&traffic=random`: readable where an address allows it.
function writeAddress(values) {
  const readable = [["%2F", "/"], ["%2C", ","], ["%3A", ":"], ["%7C", "|"], ["%20", "+"]];
  const encode = text => readable.reduce((text, [code, letter]) => text.replaceAll(code, letter),
    encodeURIComponent(text));
  return `#${Object.entries(values).map(([name, value]) => `${name}=${encode(value)}`).join("&")}`;
}
