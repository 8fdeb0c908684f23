-- Acknowledges an order that the ledger has decided: takes it out of the queue. Doing so twice is fine.
-- KEYS[1]  the item's counter, a hash
-- KEYS[2]  the queue, a stream
-- KEYS[3]  the queued orders, a hash (see push.lua)
-- ARGV[1]  the group
-- ARGV[2]  the entry
-- ARGV[3]  the order
-- ARGV[4]  the buyer
-- ARGV[5]  units
-- ARGV[6]  1 when the units go back to the counter, since the ledger has refused the order
-- ARGV[7]  the request, as in push.lua
-- Answers 0 when the order was not in the queue any more, 2 when its units went back, otherwise 1.
-- A counter that was loaded meanwhile has been loaded without the units in the queue, so they go
-- back to any load.
redis.call('XACK', KEYS[2], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[2], ARGV[2])
if redis.call('HDEL', KEYS[3], 'o:' .. ARGV[3]) == 0 then
  return 0
end
if redis.call('HINCRBY', KEYS[3], 'units', -tonumber(ARGV[5])) <= 0 then
  redis.call('HDEL', KEYS[3], 'units')
end
if redis.call('HINCRBY', KEYS[3], 'u:' .. ARGV[4], -tonumber(ARGV[5])) <= 0 then
  redis.call('HDEL', KEYS[3], 'u:' .. ARGV[4])
end
local request = 'r:' .. ARGV[7]
local known = ARGV[7] ~= '' and redis.call('HGET', KEYS[3], request)
if known and string.sub(known, 1, #ARGV[3]) == ARGV[3] then
  redis.call('HDEL', KEYS[3], request)
end
local rest = {}
for order in string.gmatch(redis.call('HGET', KEYS[3], 'b:' .. ARGV[4]) or '', '%S+') do
  if order ~= ARGV[3] then
    rest[#rest + 1] = order
  end
end
if #rest == 0 then
  redis.call('HDEL', KEYS[3], 'b:' .. ARGV[4])
else
  redis.call('HSET', KEYS[3], 'b:' .. ARGV[4], table.concat(rest, ' '))
end
if ARGV[6] == '1' and redis.call('HEXISTS', KEYS[1], 'available') == 1 then
  redis.call('HINCRBY', KEYS[1], 'available', ARGV[5])
  return 2
end
return 1
