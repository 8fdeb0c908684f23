-- Gives a permit back if the token has one, and hands what is free on to those that wait. After
-- waiters.lua.
-- KEYS[1]  the set of holders
-- KEYS[2]  the queue, in the same hash slot
-- ARGV[1]  the token
-- ARGV[2]  how many holders there may be
-- Answers  1 if given back, 0 if the token has none

local had = redis.call('SREM', KEYS[1], ARGV[1])
if had == 0 then
  -- Perhaps it only waited.
  redis.call('HDEL', KEYS[2], ARGV[1])
end
local function grant(token)
  redis.call('SADD', KEYS[1], token)
end
while redis.call('SCARD', KEYS[1]) < tonumber(ARGV[2])
  and hand_on(KEYS[2], redis.call('HGETALL', KEYS[2]), grant) do
end
return had
