-- Who waits: a hash from `r:token` or `w:token` to `arrived:seen`, in microseconds. Forgets those
-- that were not seen for a while. Answers whether a writer waits, and whether a reader does that
-- arrived before the last writer was let in.
local function who_waits(waiting, alive_ms, granted_us)
  local entries = redis.call('HGETALL', waiting)
  local writer, early_reader = false, false
  for i = 1, #entries, 2 do
    local arrived, seen = string.match(entries[i + 1], '^(%d+):(%d+)$')
    if tonumber(seen) + alive_ms * 1000 <= now_us then
      redis.call('HDEL', waiting, entries[i])
    elseif string.sub(entries[i], 1, 2) == 'w:' then
      writer = true
    elseif tonumber(arrived) < granted_us then
      early_reader = true
    end
  end
  return writer, early_reader
end

-- When this one began to wait: now, if it has not been here before.
local function arrival(waiting, who)
  local entry = redis.call('HGET', waiting, who)
  return entry and tonumber(string.match(entry, '^(%d+)')) or now_us
end

-- Leaves word that this one waits.
local function wait(waiting, who, arrived_us, alive_ms)
  redis.call('HSET', waiting, who, text(arrived_us) .. ':' .. text(now_us))
  -- When all of them are gone, nothing is left behind.
  redis.call('PEXPIRE', waiting, alive_ms * 4)
end

