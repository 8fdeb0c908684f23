-- Ends a writer's hold, or its waiting, and grants what waited for that. After read_write_queue.lua,
-- which says what the keys are.
-- ARGV[1]  the token
-- Answers  1 if ended, 0 if it is free already or someone else's

local had = writes(ARGV[1])
if had then
  redis.call('DEL', LOCK)
else
  redis.call('HDEL', QUEUE, 'w:' .. ARGV[1])
end
let_in()
return had and 1 or 0
