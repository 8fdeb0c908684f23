-- Gives a permit back if the token has one, and hands what is free on to those that wait. After
-- waiters.lua and expiring_holds.lua.
-- KEYS[1]  the holds
-- KEYS[2]  the queue, in the same hash slot
-- ARGV[1]  the token
-- ARGV[2]  how many holders there may be
-- Answers  1 if given back, 0 if its lease has ended or it had none

local had = let_go(KEYS[1], ARGV[1])
-- Perhaps it only waited.
redis.call('HDEL', KEYS[2], ARGV[1])
end_expired(KEYS[1])
local function grant(token, lease_ms)
  hold(KEYS[1], token, lease_ms)
end
while redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2])
  and hand_on(KEYS[2], redis.call('HGETALL', KEYS[2]), grant) do
end
return had and 1 or 0
