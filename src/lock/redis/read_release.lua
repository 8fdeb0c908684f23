-- Ends a reader's hold, or its waiting.
-- KEYS[1]  the readers' holds
-- KEYS[2]  who waits
-- ARGV[1]  the token
-- Answers  1 if ended, 0 if its lease has ended or it had none

redis.call('HDEL', KEYS[2], 'r:' .. ARGV[1])
if not let_go(KEYS[1], ARGV[1]) then
  return 0
end
return 1
