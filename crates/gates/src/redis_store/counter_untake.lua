-- Gives back what a request took, if no other try of the request counts on it.
-- KEYS[1]  the counter, a hash: epoch, available, b:<buyer> -> units
-- KEYS[2]  the requests that took from it, a hash
-- KEYS[3]  those of the time before, a hash
-- ARGV[1]  the epoch under which it was taken
-- ARGV[2]  units
-- ARGV[3]  the request
-- ARGV[4]  the buyer
-- Answers 1 when the units went back, 0 otherwise.
local requests = redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 and KEYS[2] or KEYS[3]
if redis.call('HGET', requests, ARGV[3]) ~= 'first' then
  return 0
end
redis.call('HDEL', requests, ARGV[3])
local buyer = 'b:' .. ARGV[4]
local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available', buyer)
if seen[1] ~= ARGV[1] then
  return 0
end
local bought = math.max(tonumber(seen[3] or '0') - ARGV[2], 0)
redis.call('HSET', KEYS[1], 'available', seen[2] + ARGV[2], buyer, bought)
return 1
