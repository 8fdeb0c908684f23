-- Takes a buyer out of the waiting room.
-- KEYS as in poll.lua
-- ARGV[1]  the buyer
-- Answers 2 when the buyer was inside, 1 when the buyer waited, else 0.
local inside = redis.call('ZREM', KEYS[6], ARGV[1])
local waited = redis.call('ZREM', KEYS[3], ARGV[1]) + redis.call('ZREM', KEYS[4], ARGV[1])
  + redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
return inside == 1 and 2 or math.min(waited, 1)
