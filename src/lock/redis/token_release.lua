-- Frees a lock if the token holds it, and hands it on to the next process that waits, when
-- token_release_alone.lua did not. After that, mint_fence.lua and waiters.lua.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue
-- KEYS[4]  what its waiters said; all four in one hash slot
-- ARGV[1]  the owner's token
-- ARGV[2]  how long the counter is kept without an acquire, in milliseconds
-- ARGV[3]  for how long a waiter that is not seen counts as alive, in milliseconds
-- Answers  1 if freed, 0 if the lock is free already or someone else's

if not ours then
  -- Perhaps it only waited.
  leave(KEYS[3], KEYS[4], ARGV[1])
  return 0
end
local handed_on = hand_on(KEYS[3], KEYS[4], ARGV[3], function(token, lease_ms, fences, channel)
  local fence = mint_fence(KEYS[2], ARGV[2], fences)
  redis.call('SET', KEYS[1], token .. ':' .. fence .. ':' .. channel, 'PX', lease_ms)
  return fence
end)
if not handed_on then
  redis.call('DEL', KEYS[1])
end
return 1
