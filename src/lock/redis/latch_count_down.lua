-- Counts down by one; at zero the key is deleted, and it stays at zero.
-- KEYS[1]  what is left
-- ARGV[1]  how long it is kept without a change, in milliseconds
-- Answers  what is left

local left = redis.call('GET', KEYS[1])
if not left then
  return 0
end
if tonumber(left) <= 1 then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('DECR', KEYS[1])
