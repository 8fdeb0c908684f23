-- Counts down by one; at zero the key is deleted, and all waiters are notified. Zero stays zero.
-- KEYS[1]  the number
-- KEYS[2]  the queue of waiting contenders, in the same hash slot
-- ARGV[1]  how long it is kept without a change, in milliseconds
-- Answers  what is left

local left = redis.call('GET', KEYS[1])
if not left then
  return 0
end
if tonumber(left) > 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return redis.call('DECR', KEYS[1])
end
redis.call('DEL', KEYS[1])
for _, waiter in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local token, channel = string.match(waiter, '^(%x+) (.*)$')
  redis.call('PUBLISH', channel, token .. ' granted')
end
redis.call('DEL', KEYS[2])
return 0
