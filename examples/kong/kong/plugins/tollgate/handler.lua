-- Asks `/v1/auth` of `tollgate serve` whether a request may go on.

local http = require "resty.http"

-- After Kong's plugins that authenticate, which have 1000 and more.
local Tollgate = { VERSION = "1.0.0", PRIORITY = 905 }

local TIMEOUT_MS = 1000

-- The parts of a refusal that go to the client.
local SHOWN = {
  "Content-Type", "Cache-Control", "Retry-After", "RateLimit", "RateLimit-Policy",
  "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "WWW-Authenticate",
}

-- The parts of an admission that do. X-RateLimit-* are there with `--headers legacy` or `both`.
local COUNTED = {
  "RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
}

-- The service believes these, so none of them is a client's own.
local function question(conf)
  local headers = {}
  for _, name in ipairs(conf.headers) do
    headers[name] = kong.request.get_header(name)
  end
  headers["X-Original-URI"] = ngx.var.request_uri
  headers["X-Original-Method"] = kong.request.get_method()
  -- Behind a load balancer set `trusted_ips` and `real_ip_header` of Kong.
  headers["X-Forwarded-For"] = kong.client.get_forwarded_ip()
  headers["X-Request-Id"] = ngx.var.request_id
  headers["Host"] = kong.request.get_header("host")
  return headers
end

-- The answer of the first service that gives one.
local function ask(conf)
  local headers = question(conf)
  for _, url in ipairs(conf.urls) do
    local client = http.new()
    client:set_timeouts(TIMEOUT_MS, TIMEOUT_MS, TIMEOUT_MS)
    local answer, err = client:request_uri(url, {
      method = "GET", headers = headers, keepalive_timeout = 30000, keepalive_pool = 16,
    })
    if answer then
      return answer
    end
    kong.log.warn("no answer of ", url, ": ", err)
  end
end

function Tollgate:access(conf)
  local answer = ask(conf)
  if not answer then
    if conf.open then
      return
    end
    return kong.response.exit(503, "", { ["Retry-After"] = "1", ["Cache-Control"] = "no-store" })
  end
  if answer.status == 200 then
    for _, name in ipairs(COUNTED) do
      if answer.headers[name] then
        kong.response.set_header(name, answer.headers[name])
      end
    end
    return
  end
  local shown = {}
  for _, name in ipairs(SHOWN) do
    shown[name] = answer.headers[name]
  end
  return kong.response.exit(answer.status, answer.body, shown)
end

return Tollgate
