-- A part for scripts with a queue of contenders. The queue is a hash from the token of each to
-- 'arrived seen lease_ms fences channel attempt', where the first two are times by this server's clock,
-- channel is where its process listens, or '', and attempt is the number of the attempt that wrote this. There
-- is one for each process, or few, so the queue is read as a whole. After clock.lua.
local WAITERS_KEPT_MS = 6000

-- What stands in the key of a lock. Only a holder with fences to hand over is worth telling that
-- somebody waits.
local function lock_value(token, fence, fences, channel)
  if fences == '1' or channel == '' then
    return token .. ':' .. fence
  end
  return token .. ':' .. fence .. ':' .. channel
end

-- Puts a waiter into the queue, or notes that it is still there; a new one is not in it yet. Tells
-- whether it was not.
local function join(queue, token, new, lease_ms, fences, channel, look)
  local now = text(now_us)
  local before = not new and redis.call('HGET', queue, token)
  local arrived = before and string.match(before, '^%d+') or now
  local said = table.concat({arrived, now, lease_ms, fences, channel, look}, ' ')
  redis.call('HSET', queue, token, said)
  -- When all of them are gone, nothing is left behind.
  redis.call('PEXPIRE', queue, WAITERS_KEPT_MS)
  return not before
end

-- Tells the holder of such a value about a waiter, if the holder listens for that: the holder should
-- not go on handing over inside its process.
local function tell_holder(value)
  local holder, channel = string.match(value, '^(%x+):%d+:(.+)$')
  if holder then
    redis.call('PUBLISH', channel, holder .. ' wanted')
  end
end

-- Whether a process listens on a channel at this server. Asked before a grant: the answer of PUBLISH
-- counts this server's listeners alone, although replicas and the other nodes of a cluster get the
-- message too: a grant can arrive although that count is 0.
local function listens(channel)
  return redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0
end

-- When the waiter of an entry arrived and what it said. A waiter that was not seen for
-- WAITER_ALIVE_MS is taken out: nil. So is one that was seen that far ahead: this clock was set back.
local function alive(queue, who, entry)
  local arrived, seen, said = string.match(entry, '^(%d+) (%d+) (.*)$')
  if math.abs(seen - now_us) < WAITER_ALIVE_MS * 1000 then
    return tonumber(arrived), said
  end
  redis.call('HDEL', queue, who)
end

-- The lease, fences, channel and attempt of a contender. An older program writes no attempt: ''.
local function terms(said)
  return string.match(said, '^(%d+) (%d+) (%S*) ?(%d*)$')
end

-- The waiter that came first, what it said, and how many others there are.
local function first_waiter(queue, entries)
  local first, first_arrived, first_said
  local others = -1
  for i = 1, #entries, 2 do
    local arrived, said = alive(queue, entries[i], entries[i + 1])
    if arrived then
      others = others + 1
      if not first or arrived < first_arrived then
        first, first_arrived, first_said = entries[i], arrived, said
      end
    end
  end
  return first, first_said, others
end

-- Gives a hold that has just become free to the first waiter whose process listens, and tells it:
-- 'token fence fences others attempt', or 'token granted attempt' where there are no fences: the waiter
-- accepts it only if that attempt was the last one that was refused. grant(token, lease_ms, fences, channel) writes
-- the hold and answers its first fence. A waiter that wants no fence, '0', cannot be granted this
-- alone: it is told to look. Answers false if nobody has got it.
local function hand_on(queue, entries, grant)
  local token, said, others = first_waiter(queue, entries)
  while token do
    local lease_ms, fences, channel, look = terms(said)
    if channel == '' then
      -- It polls.
      return false
    end
    redis.call('HDEL', queue, token)
    -- A process that has gone does not listen any more.
    if listens(channel) then
      local message = token .. ' look'
      if fences ~= '0' then
        local fence = grant(token, lease_ms, fences, channel)
        message = fence and table.concat({token, fence, fences, others, look}, ' ')
          or token .. ' granted ' .. look
      end
      redis.call('PUBLISH', channel, message)
      return fences ~= '0'
    end
    token, said, others = first_waiter(queue, redis.call('HGETALL', queue))
  end
  return false
end
