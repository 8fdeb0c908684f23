-- Takes a buyer out of the waiting room.
-- KEYS as in poll.lua
-- ARGV[1]  the buyer
-- ARGV[2]  1 when the buyer gives all tickets back; 0 when they stay good until their ends
-- ARGV[3]  the shift of the clock in milliseconds (tests)
-- ARGV[4]  how long a ticket is valid, in milliseconds
-- Answers 2 when the buyer was inside, 1 when the buyer waited, else 0.
local buyer = ARGV[1]
if ARGV[2] == '1' then
  local clock = redis.call('TIME')
  local now = math.floor(clock[1] * 1000 + clock[2] / 1000) + ARGV[3]
  -- After a purchase the buyer is not inside, but may still have tickets. None of them ends later than this.
  local last_end = math.max(now + ARGV[4], tonumber(redis.call('ZSCORE', KEYS[6], buyer) or '0'),
    tonumber(redis.call('ZSCORE', KEYS[9], buyer) or '0'))
  redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', now)
  redis.call('ZADD', KEYS[9], string.format('%.0f', last_end), buyer)
  local needed = math.max(1000, last_end - now)
  if redis.call('PTTL', KEYS[9]) < needed then
    redis.call('PEXPIRE', KEYS[9], string.format('%.0f', needed))
  end
end
-- While the places are given, the list stays as it is: all instances have to read the same one. The place of a buyer who
-- has left is put aside.
if redis.call('HGET', KEYS[1], 'state') ~= 'frozen' then
  redis.call('HDEL', KEYS[2], buyer)
end
local inside = redis.call('ZREM', KEYS[6], buyer)
for at = 3, 4 do
  redis.call('ZREM', KEYS[at], buyer)
end
redis.call('HDEL', KEYS[8], buyer)
local waited = redis.call('ZREM', KEYS[5], buyer)
return inside == 1 and 2 or waited
