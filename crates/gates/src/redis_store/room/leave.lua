-- Takes a buyer out of the waiting room.
-- KEYS as in poll.lua
-- ARGV[1]  the buyer
-- ARGV[2]  1 when the buyer gives the ticket back; 0 when it stays good until its end
-- ARGV[3]  the shift of the clock in milliseconds (tests)
-- Answers 2 when the buyer was inside, 1 when the buyer waited, else 0.
local buyer = ARGV[1]
local ticket_end = redis.call('ZSCORE', KEYS[6], buyer)
if ticket_end and ARGV[2] == '1' then
  local now = redis.call('TIME')[1] * 1000 + ARGV[3]
  redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', now)
  redis.call('ZADD', KEYS[9], ticket_end, buyer .. ':' .. ticket_end)
  redis.call('PEXPIRE', KEYS[9], math.max(1000, ticket_end - now))
end
local inside = redis.call('ZREM', KEYS[6], buyer)
local waited = redis.call('ZREM', KEYS[3], buyer) + redis.call('ZREM', KEYS[4], buyer)
  + redis.call('HDEL', KEYS[2], buyer)
redis.call('ZREM', KEYS[5], buyer)
redis.call('HDEL', KEYS[8], buyer)
return inside == 1 and 2 or math.min(waited, 1)
