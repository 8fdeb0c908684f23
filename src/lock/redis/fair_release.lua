-- Frees a lock if the token holds it, and takes the token out of the queue if it waits there.
-- KEYS[1]  the lock, also the name of the channel
-- KEYS[2]  the queue
-- KEYS[3]  when each waiter was last seen
-- ARGV[1]  the token
-- Answers  1 if freed, 0 if the lock is free already or someone else's

redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1], 'free')
  return 1
end
return 0
