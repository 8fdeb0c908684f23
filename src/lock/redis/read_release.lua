-- Ends a reader's hold, or its waiting.
-- KEYS[1]  the readers' holds
-- KEYS[2]  who waits
-- KEYS[3]  the writer's hold: the name of the channel
-- ARGV[1]  the token
-- Answers  1 if ended, 0 if its lease has ended or it had none

redis.call('HDEL', KEYS[2], 'r:' .. ARGV[1])
if not let_go(KEYS[1], ARGV[1]) then
  return 0
end
redis.call('PUBLISH', KEYS[3], 'free')
return 1
