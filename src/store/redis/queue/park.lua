-- Puts an entry aside that cannot be decided, so that it holds nobody up. Its order stays queued.
-- KEYS[1]  the queue, a stream
-- KEYS[2]  the entries that were put aside, a stream
-- ARGV[1]  the group
-- ARGV[2]  the entry
-- ARGV[3]  entries that may be put aside
-- ARGV[4]  the order as it was queued
-- ARGV[5]  why
-- Answers 1 when it was put aside, 0 when there is no room.
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('XADD', KEYS[2], '*', 'order', ARGV[4], 'why', ARGV[5])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
