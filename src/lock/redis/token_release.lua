-- Frees a lock if the token holds it, and hands it on to the next process that waits, when
-- token_release_alone.lua did not. After that, clock.lua, mint_fence.lua and waiters.lua.
-- KEYS[1]  the lock
-- KEYS[2]  the fence counter
-- KEYS[3]  the queue; all three in one hash slot
-- ARGV[1]  the owner's token
-- Answers  1 if freed, 0 if the lock is free already or someone else's

local handed_on = hand_on(KEYS[3], waiting, function(token, lease_ms, fences, channel)
  local fence = mint_fence(KEYS[2], fences)
  redis.call('SET', KEYS[1], hold(token, fence, fences, channel), 'PX', lease_ms)
  return fence
end)
if not handed_on then
  redis.call('DEL', KEYS[1])
end
return 1
