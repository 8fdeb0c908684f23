-- Hands a lock that was let go on to the next that waits for it, or leaves it free. The lock's key
-- is that of token_acquire.lua. After waiters.lua and mint_fence.lua.
local function hand_on_or_free(lock, counter, queue, entries)
  local handed_on = hand_on(queue, entries, function(token, lease_ms, fences, channel)
    local fence = mint_fence(counter, fences)
    redis.call('SET', lock, lock_value(token, fence, fences, channel), 'PX', lease_ms)
    return fence
  end)
  if not handed_on then
    redis.call('DEL', lock)
  end
end

