-- Takes units from an item's counter and queues the order, in one step. All checks first.
-- KEYS[1]  the counter, a hash
-- KEYS[2]  the queue, a stream
-- KEYS[3]  the queued orders, a hash: units, u:<buyer> -> units, b:<buyer> -> orders, o:<order>,
--          r:<request> -> order units
-- KEYS[4]  the requests that were queued, a hash: request -> order units; and since when they are written there
-- KEYS[5]  those of the time before, a hash
-- ARGV[1]  the epoch that the caller knows
-- ARGV[2]  units
-- ARGV[3]  the order
-- ARGV[4]  the buyer
-- ARGV[5]  the request, named by buyer and key; empty when it cannot be sent again
-- ARGV[6]  units that the buyer may have in the queue; -1 for any number
-- ARGV[7]  entries that the queue may have
-- ARGV[8]  how long requests are remembered at least, in milliseconds; twice that at most
-- ARGV[9]  the order as it is queued
-- ARGV[10] 1 when replicas are waited for behind the script
-- Answers queued; known with the order and its units; nothing_left, limit, full; or not_loaded
-- when the counter is not the load of that epoch.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or not seen[2] then
  return {'not_loaded', ''}
end

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[5] ~= '' then
  -- The memory of requests runs out; what is queued does not.
  local known = redis.call('HGET', KEYS[3], 'r:' .. ARGV[5]) or redis.call('HGET', KEYS[4], ARGV[5])
  local is_of_before = not known
  known = known or redis.call('HGET', KEYS[5], ARGV[5])
  if known then
    -- A request that is still asked for stays known. With replicas it is written once more in any case, so that WAIT
    -- covers the time when it was queued.
    if is_of_before or ARGV[10] == '1' then
      remember(KEYS[4], KEYS[5], ARGV[5], known, ARGV[8], now_ms)
    end
    return {'known', known}
  end
end
local units = tonumber(ARGV[2])
local limit = tonumber(ARGV[6])
local waiting = tonumber(redis.call('HGET', KEYS[3], 'u:' .. ARGV[4]) or '0')
if limit >= 0 and waiting + units > limit then
  return {'limit', ''}
end
if tonumber(seen[2]) < units then
  return {'nothing_left', ''}
end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[7]) then
  return {'full', ''}
end
redis.call('HINCRBY', KEYS[1], 'available', -units)
redis.call('XADD', KEYS[2], '*', 'order', ARGV[9])
redis.call('HSET', KEYS[3], 'o:' .. ARGV[3], ARGV[9])
redis.call('HINCRBY', KEYS[3], 'units', units)
redis.call('HINCRBY', KEYS[3], 'u:' .. ARGV[4], units)
local orders = redis.call('HGET', KEYS[3], 'b:' .. ARGV[4])
redis.call('HSET', KEYS[3], 'b:' .. ARGV[4], (orders and orders .. ' ' or '') .. ARGV[3])
if ARGV[5] ~= '' then
  redis.call('HSET', KEYS[3], 'r:' .. ARGV[5], ARGV[3] .. ' ' .. ARGV[2])
  remember(KEYS[4], KEYS[5], ARGV[5], ARGV[3] .. ' ' .. ARGV[2], ARGV[8], now_ms)
end
return {'queued', ''}
