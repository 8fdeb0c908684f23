-- Writes what buyers have of an item, before its units, if the counter is still marked as being
-- loaded so.
-- KEYS[1]  the counter, a hash: epoch, b:<buyer> -> units
-- ARGV[1]  the epoch of this load
-- ARGV[2]  and all further ones: a buyer and its units
-- Answers 1 when they were written, 0 when the mark is gone or another one.
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available')
if seen[1] ~= ARGV[1] or seen[2] then
  return 0
end
for i = 2, #ARGV, 2 do
  redis.call('HSET', KEYS[1], 'b:' .. ARGV[i], ARGV[i + 1])
end
return 1
