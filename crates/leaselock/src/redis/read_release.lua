-- Ends a reader's hold, or its waiting, and grants what waited for that. After read_write_queue.lua,
-- which says what the keys are.
-- ARGV[1]  the token
-- Answers  1 if ended, 0 if its lease has ended or it had none

local had = let_go(READERS, ARGV[1])
redis.call('HDEL', QUEUE, 'r:' .. ARGV[1])
let_in()
return had and 1 or 0
