-- Writes what buyers have of an item, before its counter is loaded, unless a later load was here
-- first.
-- KEYS[1]  the counter, a hash: epoch, available, b:<buyer> -> units
-- ARGV[1]  the epoch of this load
-- ARGV[2]  1 for the first part, which forgets the load before
-- ARGV[3]  and all further ones: a buyer and its units
-- Answers 1 when they were written, 0 when a later or the same load stands there.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then
  return 0
end
if ARGV[2] == '1' then
  redis.call('DEL', KEYS[1])
end
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], 'b:' .. ARGV[i], ARGV[i + 1])
end
return 1
