-- The head of scripts that keep several holds of one name, each until a time by the server's clock.
-- After clock.lua.

-- Takes out the holds whose leases have ended.
local function end_expired(holds)
  redis.call('ZREMRANGEBYSCORE', holds, '-inf', text(now_us))
end

-- Writes a hold into the sorted set of holds by the end of their leases.
local function hold(holds, token, lease_ms)
  redis.call('ZADD', holds, text(now_us + lease_ms * 1000), token)
  -- The set lives as long as the longest of its leases.
  if redis.call('PTTL', holds) < tonumber(lease_ms) then
    redis.call('PEXPIRE', holds, lease_ms)
  end
end

-- Whether the holds in the sorted set have a live one of this token; then its lease starts anew.
local function prolong(holds, token, lease_ms)
  local until_us = redis.call('ZSCORE', holds, token)
  if not until_us or tonumber(until_us) <= now_us then
    return false
  end
  hold(holds, token, lease_ms)
  return true
end

-- Ends a hold, and answers whether it was live.
local function let_go(holds, token)
  local until_us = redis.call('ZSCORE', holds, token)
  if not until_us then
    return false
  end
  redis.call('ZREM', holds, token)
  return tonumber(until_us) > now_us
end

