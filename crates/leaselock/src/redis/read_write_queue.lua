-- A part for scripts in which readers and writers alternate. Contenders wait in a queue as in
-- waiters.lua, as `r:token` or `w:token`. After waiters.lua, expiring_holds.lua and mint_fence.lua.
-- KEYS[1]  the writer's hold: token:fence
-- KEYS[2]  the readers' holds: a sorted set by the end of their leases
-- KEYS[3]  the queue of waiting contenders
-- KEYS[4]  when the last writer was let in
-- KEYS[5]  the fence counter; all in one hash slot
local LOCK, READERS, QUEUE, LAST_WRITER, COUNTER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local last_writer_us = tonumber(redis.call('GET', LAST_WRITER) or '0')
end_expired(READERS)

-- Whether the token has the writer's hold, and whether anybody has it.
local function writes(token)
  local held = redis.call('GET', LOCK)
  return held and string.sub(held, 1, #token + 1) == token .. ':' and held, held ~= false
end

-- The writer that has waited longest, if one waits, the readers that wait, and whether one of them
-- came before the last writer was let in: it goes before the next writer.
local function who_waits()
  local entries = redis.call('HGETALL', QUEUE)
  local writer, readers, early = nil, {}, false
  for i = 1, #entries, 2 do
    local who = entries[i]
    local arrived, said = alive(QUEUE, who, entries[i + 1])
    if arrived then
      local one = {who = who, token = string.sub(who, 3), arrived = arrived}
      one.lease_ms, one.fences, one.channel, one.look = terms(said)
      if string.sub(who, 1, 2) == 'r:' then
        readers[#readers + 1] = one
        early = early or arrived < last_writer_us
      elseif not writer or arrived < writer.arrived then
        writer = one
      end
    end
  end
  return writer, readers, early
end

local function let_reader_in(token, lease_ms)
  redis.call('HDEL', QUEUE, 'r:' .. token)
  hold(READERS, token, lease_ms)
end

-- Answers the writer's fence.
local function let_writer_in(token, lease_ms)
  redis.call('HDEL', QUEUE, 'w:' .. token)
  local fence = mint_fence(COUNTER)
  redis.call('SET', LAST_WRITER, text(now_us), 'PX', FENCE_KEPT_MS)
  redis.call('SET', LOCK, token .. ':' .. fence, 'PX', lease_ms)
  return fence
end

-- Grants the name to the next contenders and notifies them: to all readers that go before the next
-- writer, or to the writer that has waited longest. Contenders without a subscription poll.
local function let_in()
  if redis.call('EXISTS', LOCK) == 1 then
    return
  end
  local writer, readers, early = who_waits()
  local stays_out = false
  for _, one in ipairs(readers) do
    if not writer or one.arrived < last_writer_us then
      if one.channel == '' then
        stays_out = true
      else
        if listens(one.channel) then
          let_reader_in(one.token, one.lease_ms)
          redis.call('PUBLISH', one.channel, one.token .. ' granted ' .. one.look)
        else
          redis.call('HDEL', QUEUE, one.who)
        end
      end
    end
  end
  if not writer or stays_out or writer.channel == '' or redis.call('ZCARD', READERS) > 0 then
    return
  end
  if listens(writer.channel) then
    local fence = let_writer_in(writer.token, writer.lease_ms)
    redis.call('PUBLISH', writer.channel, table.concat({writer.token, fence, '1', '0', writer.look}, ' '))
  else
    -- It has gone: the next one.
    redis.call('HDEL', QUEUE, writer.who)
    let_in()
  end
end

