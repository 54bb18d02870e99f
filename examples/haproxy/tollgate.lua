-- `http-request lua.tollgate closed` (or `open`): asks whether a request may go on. By way of
-- `listen tollgate` in haproxy.cfg.

local ASKED = "http://127.0.0.1:8702/v1/auth"
local TIMEOUT_MS = 3000
local MAX_LINES = 64
local MAX_BYTES = 8192

-- Headers of these names from a client are not passed on. The service trusts a proxy's, or they are
-- about a connection or a body that the question does not have, or they are long and secret. All
-- else is, since policies may look at it.
local NOT_PASSED = {}
for name in string.gmatch([[
  x-original-uri x-original-method x-forwarded-uri x-forwarded-method x-forwarded-host
  x-forwarded-for connection keep-alive proxy-connection te trailer transfer-encoding upgrade
  expect content-length cookie x-request-id
]], "%S+") do
  NOT_PASSED[name] = true
end

-- The parts of a refusal that go to the client.
local SHOWN = {
  "content-type", "cache-control", "retry-after", "ratelimit", "ratelimit-policy",
  "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "www-authenticate",
}

-- The parts of an admission, and the variables that haproxy.cfg makes headers of.
local COUNTED = {
  ["ratelimit"] = "txn.limit_count",
  ["ratelimit-policy"] = "txn.limit_policy",
  ["x-ratelimit-limit"] = "txn.x_limit",
  ["x-ratelimit-remaining"] = "txn.x_remaining",
  ["x-ratelimit-reset"] = "txn.x_reset",
}

-- The headers of the question, or nil when they are too many: HAProxy 2.6 ends when a script sends
-- about a hundred, and asks nothing that is longer than its buffer.
local function question(txn)
  local headers = {
    ["x-original-uri"] = { txn.sf:url() },
    ["x-original-method"] = { txn.sf:method() },
    ["x-forwarded-for"] = { txn.sf:src() },
    -- For `--request-id-header X-Request-Id`.
    ["x-request-id"] = { txn.sf:uuid() },
  }
  local lines, bytes = 0, #txn.sf:url() + #txn.sf:method()
  for name, values in pairs(txn.http:req_get_headers()) do
    if not NOT_PASSED[name] then
      headers[name] = {}
      -- HAProxy counts the lines of a header from 0.
      for place = 0, #values do
        headers[name][place + 1] = values[place]
        lines, bytes = lines + 1, bytes + #name + #values[place]
      end
    end
  end
  if lines <= MAX_LINES and bytes <= MAX_BYTES then
    return headers
  end
end

local function header(answer, name)
  local lines = answer.headers and answer.headers[name]
  return lines and lines[0]
end

local function refuse(txn, answer)
  local reply = txn:reply({ status = answer.status, reason = answer.reason })
  for _, name in ipairs(SHOWN) do
    local value = header(answer, name)
    if value then
      reply:add_header(name, value)
    end
  end
  reply:set_body(answer.body or "")
  txn:done(reply)
end

core.register_action("tollgate", { "http-req" }, function(txn, unanswered)
  local headers = question(txn)
  if not headers then
    return refuse(txn, { status = 431 })
  end
  local get = { url = ASKED, headers = headers, timeout = TIMEOUT_MS }
  local answer = core.httpclient():get(get) or {}
  local status = answer.status or 0
  if status == 200 then
    for name, variable in pairs(COUNTED) do
      local value = header(answer, name)
      if value then
        txn:set_var(variable, value)
      end
    end
  elseif header(answer, "content-type") == "application/problem+json" then
    -- The service's own word; HAProxy's for a service that is not there has another type.
    refuse(txn, answer)
  elseif unanswered ~= "open" or status < 502 or status > 504 then
    -- Not for other faults: a client can cause some.
    refuse(txn, { status = 503 })
  end
end, 1)
