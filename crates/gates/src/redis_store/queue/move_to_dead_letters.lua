-- Moves an entry that cannot be decided to the dead letters, so that it does not delay others. Its order
-- stays queued.
-- KEYS[1]  the queue, a stream
-- KEYS[2]  the dead letters, a stream
-- ARGV[1]  the group
-- ARGV[2]  the entry
-- ARGV[3]  the most dead letters
-- ARGV[4]  the order as it was queued
-- ARGV[5]  why
-- Answers 1 when it was moved; 0 when the dead letters are full, or when another consumer has taken it out of the
-- queue.
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then
  return 0
end
redis.call('XADD', KEYS[2], '*', 'order', ARGV[4], 'why', ARGV[5])
return 1
