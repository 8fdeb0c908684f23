-- Ends a writer's hold, or its waiting.
-- KEYS[1]  the writer's hold
-- KEYS[2]  who waits
-- ARGV[1]  the token
-- Answers  1 if ended, 0 if it is free already or someone else's

redis.call('HDEL', KEYS[2], 'w:' .. ARGV[1])
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  redis.call('DEL', KEYS[1])
  return 1
end
return 0
