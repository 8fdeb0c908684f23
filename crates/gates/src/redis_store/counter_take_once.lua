-- Takes units from an item's counter, once per request, while the sale is open and the buyer's
-- limit allows it. All checks first, writes last.
-- KEYS[1]  the counter, a hash: epoch, available, b:<buyer> -> units
-- KEYS[2]  the requests that took from it, a hash: request -> first, or again; and since when they
--          are written there
-- KEYS[3]  those of the time before, a hash
-- ARGV[1]  the epoch that the caller knows
-- ARGV[2]  units
-- ARGV[3]  the request, named with that epoch and the units
-- ARGV[4]  how long requests are remembered at least, in milliseconds; twice that at most
-- ARGV[5]  the buyer
-- ARGV[6]  units that a buyer may have
-- ARGV[7]  when the sale starts, in microseconds by this server's clock
-- ARGV[8]  when it ends
-- Answers taken; again when this request had taken them before; nothing_left, limit, not_started,
-- ended; or not_loaded when the counter is not the load of that epoch.
local buyer = 'b:' .. ARGV[5]
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available', buyer)
if seen[1] ~= ARGV[1] or not seen[2] then
  return 'not_loaded'
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)

-- From the second try on two tries count on these units, so neither may give them back.
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
  redis.call('HSET', KEYS[2], ARGV[3], 'again')
  return 'again'
end
if redis.call('HDEL', KEYS[3], ARGV[3]) == 1 then
  remember(KEYS[2], KEYS[3], ARGV[3], 'again', ARGV[4], now_ms)
  return 'again'
end
if now_us < tonumber(ARGV[7]) then
  return 'not_started'
end
if now_us >= tonumber(ARGV[8]) then
  return 'ended'
end
local units, bought = tonumber(ARGV[2]), tonumber(seen[3] or '0')
if bought + units > tonumber(ARGV[6]) then
  return 'limit'
end
if tonumber(seen[2]) < units then
  return 'nothing_left'
end
redis.call('HSET', KEYS[1], 'available', seen[2] - units, buyer, bought + units)
remember(KEYS[2], KEYS[3], ARGV[3], 'first', ARGV[4], now_ms)
return 'taken'
