-- The head of scripts that know who waits for a lock. Those who wait are
--   queue  a sorted set of their tokens by arrival, and
--   said   a hash with what each said last: 'seen lease_ms fences channel', where seen is a time in
--          microseconds by this server's clock and channel is where its process listens, or ''.
local WAITERS_KEPT_MS = 6000

local function now_us()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Puts a waiter into the queue, or notes that it is still there. Tells whether it is new.
local function join(queue, said, token, lease_ms, fences, channel)
  local now = string.format('%.0f', now_us())
  local new = redis.call('ZADD', queue, 'NX', now, token)
  redis.call('HSET', said, token, now .. ' ' .. lease_ms .. ' ' .. fences .. ' ' .. channel)
  -- When all of them are gone, nothing is left behind.
  redis.call('PEXPIRE', queue, WAITERS_KEPT_MS)
  redis.call('PEXPIRE', said, WAITERS_KEPT_MS)
  return new == 1
end

local function leave(queue, said, token)
  if redis.call('ZREM', queue, token) == 1 then
    redis.call('HDEL', said, token)
  end
end

-- The waiter that came first; those before it that were not seen for so long are taken out.
local function first_waiter(queue, said, alive_ms)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  while first do
    local text = redis.call('HGET', said, first) or '0 0 0 '
    local seen, lease_ms, fences, channel = string.match(text, '^(%d+) (%d+) (%d+) (.*)$')
    if tonumber(seen) + alive_ms * 1000 > now_us() then
      return first, lease_ms, fences, channel
    end
    leave(queue, said, first)
    first = redis.call('ZRANGE', queue, 0, 0)[1]
  end
  return nil
end

-- Gives a lock that has just become free to the first waiter whose process listens, and tells it:
-- 'token fence fences others'. grant(token, lease_ms, fences, channel) writes the hold and answers
-- its first fence. Answers false if there is no such waiter: then the lock is nobody's.
local function hand_on(queue, said, alive_ms, grant)
  local token, lease_ms, fences, channel = first_waiter(queue, said, alive_ms)
  -- A waiter without a channel looks by itself.
  while token and channel ~= '' do
    leave(queue, said, token)
    local fence = grant(token, lease_ms, fences, channel)
    local others = redis.call('ZCARD', queue)
    local told = table.concat({token, fence, fences, others}, ' ')
    -- A process that has gone does not listen any more.
    if redis.call('PUBLISH', channel, told) > 0 then
      return true
    end
    token, lease_ms, fences, channel = first_waiter(queue, said, alive_ms)
  end
  return false
end

